#pragma once
// Columns of a table brought to one scale: each minus its mean, divided by its standard deviation.
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct ColumnScale {
  double mean = 0;
  double std = 0;  // of all samples (the root of the mean square); 0: all numbers are the same
};

// Of each column, over the samples that have a number there. An Error names the file and a column
// without any.
Result<std::vector<double>> column_means(const DataSet&, const std::string& file);
// NaN becomes the mean of its column. CHECKs the width.
void fill_missing(DataSet&, std::span<const double> means);

// One for each number of a sample, summed in double in the order of the samples. CHECKs that the
// samples are numbers, not pixels.
std::vector<ColumnScale> column_scales(const DataSet&);

// x becomes (x - mean) / std, and 0 in a column whose std is 0, whatever x is. CHECKs the width.
void standardise(DataSet&, std::span<const ColumnScale>);

}  // namespace longhaul::learn
