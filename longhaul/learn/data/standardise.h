#pragma once
// Columns of a table brought to one scale: each minus its mean, divided by its standard deviation.
#include <span>
#include <vector>

#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct ColumnScale {
  double mean = 0;
  double std = 0;  // of all samples (the root of the mean square); 0: all numbers are the same
};

// One for each number of a sample, summed in double in the order of the samples. CHECKs that the
// samples are numbers, not pixels.
std::vector<ColumnScale> column_scales(const DataSet&);

// x becomes (x - mean) / std, and 0 in a column whose std is 0, whatever x is. CHECKs the width.
void standardise(DataSet&, std::span<const ColumnScale>);

}  // namespace longhaul::learn
