#pragma once
// data.json of a run folder: what the numbers of a table mean to who uses model.pt. Classes stand
// in the order of the outputs, columns in that of the inputs.
#include <string>
#include <vector>

#include "longhaul/learn/data/load.h"

namespace longhaul::run {

// "": of data that are no table; docs/data.md says what those mean.
std::string data_json(const learn::Split&);

struct DataMeaning {
  learn::DataSet like;  // without samples: shape, names of classes, columns, categories, target
  std::vector<learn::ColumnScale> scales;  // empty: columns are as the file has them
  std::vector<double> fills;               // of missing cells; empty: none may be missing
};
// Errors name the file.
Result<DataMeaning> read_data_file(const std::string& folder);

}  // namespace longhaul::run
