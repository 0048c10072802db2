#pragma once
// Comma-separated values: a line a sample, every column a number but the one to predict. The
// separator is the first of , ; tab that the first line holds. Fields may stand in double quotes
// ("" for a quote), but not go over a line's end. Empty lines are left out; an empty field is an
// error.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/learn/data/text.h"

namespace longhaul::learn {

struct CsvOptions {
  TargetOptions target;
  std::string column;               // to predict: a name, or a number from 1; "": the last
  std::vector<std::string> ignore;  // columns left out, by name or number
  std::optional<bool> header;       // absent: the first line is one if it holds no number
};

// `name` stands for the file in messages.
Result<DataSet> read_csv(std::string_view text, std::string_view name, const CsvOptions&);

}  // namespace longhaul::learn
