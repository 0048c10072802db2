#pragma once
// What the readers of CSV files share: lines, cells, numbers, and how an error shows what it found.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::run {

// What cells are: "a rate in Mbit/s", at most `max`.
struct CellKind {
  std::string_view noun;
  double max = 0;
  bool positive = false;  // of a trace: never 0
};

// Without what stands around it: blanks, and the end of a line as Windows has it.
std::string_view trimmed(std::string_view);
std::vector<std::string_view> cells_of(std::string_view line);
// The cell as a number; nullopt if it is none, or anything stands beside it.
std::optional<double> number_in(std::string_view cell);
// What a user sees of a cell: short, and free of what a terminal would obey.
std::string shown(std::string_view cell);
// Reads the file; one that is missing, no file or too large is an Error. `what`: "matrix (CSV)".
Result<std::string> read_csv(const std::string& path, const std::string& what);

// Calls take(line, number) for every line that is neither empty nor a comment (#), until one is
// refused.
template <class Take>
Status each_line(std::string_view text, Take&& take) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // what spreadsheets put in front
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.front() != '#') LH_TRY(take(line, number));
  }
  return Ok{};
}

}  // namespace longhaul::run
