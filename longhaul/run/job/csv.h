#pragma once
// The common part of the readers of CSV files: lines, cells, numbers, and bad cells in errors.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "longhaul/base/result.h"
#include "longhaul/run/job/document.h"

namespace longhaul::run {

// The kind of a cell: "a rate in Mbit/s", at most `max`.
struct CellKind {
  std::string_view noun;
  double max = 0;
  bool positive = false;  // in traces: never 0
};

// Returns the text without surrounding blanks and without a Windows line end.
inline std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \r") + 1 - first);
}

inline std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const std::size_t comma = line.find(',');
    cells.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

// Returns the cell as a number; nullopt if it is none, or has other text.
inline std::optional<double> number_in(std::string_view cell) {
  double value = 0;
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool number =
      code == std::errc{} && end == cell.data() + cell.size() && std::isfinite(value);
  return number ? std::optional(value) : std::nullopt;
}

// Returns a cell as shown to a user: short, and without control characters.
inline std::string shown(std::string_view cell) {
  std::string text;
  for (char c : cell.substr(0, 32))
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return cell.empty() ? "nothing" : fmt::format("'{}'", text);
}

// Reads the file. Returns an Error if it is missing, no file or too large. `what`: "matrix (CSV)".
inline Result<std::string> read_csv(const std::string& path, const std::string& what) {
  std::error_code code;
  if (std::filesystem::exists(path, code) && !std::filesystem::is_directory(path, code) &&
      !std::filesystem::is_regular_file(path, code))  // a pipe would block
    return invalid(fmt::format("{}: not a regular file; expected a {}", path, what));
  return read_text_file(path, what);
}

// Calls take(line, number) for every line that is neither empty nor a comment (#), until the first
// Error.
template <class Take>
Status each_line(std::string_view text, Take&& take) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // mark that spreadsheets write
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.front() != '#') LH_TRY(take(line, number));
  }
  return Ok{};
}

}  // namespace longhaul::run
