#include "longhaul/run/job/csv.h"

#include <charconv>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "longhaul/run/job/document.h"

namespace longhaul::run {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \r") + 1 - first);
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const std::size_t comma = line.find(',');
    cells.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

std::optional<double> number_in(std::string_view cell) {
  double value = 0;
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool number =
      code == std::errc{} && end == cell.data() + cell.size() && std::isfinite(value);
  return number ? std::optional(value) : std::nullopt;
}

std::string shown(std::string_view cell) {
  std::string text;
  for (char c : cell.substr(0, 32))
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return cell.empty() ? "nothing" : fmt::format("'{}'", text);
}

Result<std::string> read_csv(const std::string& path, const std::string& what) {
  std::error_code code;
  if (std::filesystem::exists(path, code) && !std::filesystem::is_directory(path, code) &&
      !std::filesystem::is_regular_file(path, code))  // a pipe would be waited for
    return invalid(fmt::format("{}: not a regular file; expected a {}", path, what));
  return read_text_file(path, what);
}

}  // namespace longhaul::run
