#pragma once
// Comma-separated values: a line a sample. Every column but the target is a number, or the name of
// a category. Fields may stand in double quotes ("" for a quote), but not go over a line's end.
// Empty lines are left out.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/learn/data/text.h"

namespace longhaul::learn {

// What becomes of an empty cell, or one that says NA, N/A, NaN, null, none or ?, in any case.
enum class Missing : std::uint8_t {
  refuse,  // an Error
  drop,    // its sample is left out
  mean     // it is NaN in `features`, until fill_missing() (facts.h)
};

struct CsvOptions {
  TargetOptions target = {};
  // To predict, by names or numbers from 1; none: the last. Several: of numbers or labels alone.
  std::vector<std::string> columns = {};
  std::vector<std::string> ignore = {};  // columns left out, by name or number
  // Absent: the first line names the columns if it holds no number, or a field of it is no number
  // and the one below it is.
  std::optional<bool> header = {};
  char separator = 0;  // 0: the first of , ; tab that the first line holds outside of quotes
  Missing missing = Missing::refuse;
  // Columns of categories: "NAME", whose values are those found, sorted, or "NAME = a | b | c".
  // Each becomes as many numbers as it has values: 1 for the value that the cell holds, 0 for the
  // others.
  std::vector<std::string> categorical = {};
  // The training set and its file: the columns are found by its names and come in its order, and
  // its categories are those of this file.
  const DataSet* like = nullptr;
  std::string like_name = {};
  // With `like`: samples to predict. The target need not be there; what stands there is not read,
  // and the samples have targets of 0.
  bool to_predict = false;
};

// `name` stands for the file in messages. An Error of cells counts them by column, and names the
// first.
Result<DataSet> read_csv(std::string_view text, std::string_view name, const CsvOptions&);

}  // namespace longhaul::learn
