#pragma once
// Comma-separated values, one sample per line. Every column but the target is a number, or the name
// of a category. Fields may be in double quotes ("" for a quote), but must end on their line. Empty
// lines are ignored.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/learn/data/text.h"

namespace longhaul::learn {

// The treatment of a cell that is empty or says NA, N/A, NaN, null, none or ?, in any case.
enum class Missing : std::uint8_t {
  refuse,  // an Error
  drop,    // the sample is left out
  mean     // the cell is NaN in `features` until fill_missing() (facts.h)
};

struct CsvOptions {
  TargetOptions target = {};
  // The targets, by names or numbers from 1; none: the last. Several: only numbers or labels.
  std::vector<std::string> columns = {};
  std::vector<std::string> ignore = {};  // columns left out, by name or number
  // Absent: the first line names the columns if it holds no number, or if a field of it is no
  // number and the one below is.
  std::optional<bool> header = {};
  char separator = 0;  // 0: the first of , ; tab that the first line holds outside of quotes
  Missing missing = Missing::refuse;
  // Columns of categories: "NAME", with the values found, sorted, or "NAME = a | b | c". Each
  // becomes as many numbers as it has values: 1 for the value of the cell, 0 for the others.
  std::vector<std::string> categorical = {};
  // The training set and its file. The columns are found by its names and ordered like its columns;
  // the categories are those of this set.
  const DataSet* like = nullptr;
  std::string like_name = {};
  // With `like`: samples to predict. The target column can be missing; its values are not read, and
  // the samples have targets of 0.
  bool to_predict = false;
};

// `name`: the file in messages. An Error about cells counts them by column, and names the first.
Result<DataSet> read_csv(std::string_view text, std::string_view name, const CsvOptions&);

}  // namespace longhaul::learn
