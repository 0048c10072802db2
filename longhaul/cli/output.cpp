#include "longhaul/cli/output.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "longhaul/cli/cli.h"

namespace longhaul::cli {

int tell(const Error& error) {
  fmt::print(stderr, "longhaul: {}\n", error.what);
  return error.kind == Error::Kind::timed_out ? kFailed : kBadUsage;
}

std::string text_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(head.size(), 0);
  auto measure = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  };
  measure(head);
  for (const auto& row : rows) measure(row);
  auto line = [&](const std::vector<std::string>& row) {
    std::string text;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = i < row.size() ? row[i] : "";
      text += i == 0 ? fmt::format("{:<{}}", cell, widths[i])
                     : fmt::format("  {:>{}}", cell, widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line(head);
  for (const auto& row : rows) text += line(row);
  return text;
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool is_interrupted(const run::Summary& summary) {
  return summary.stop_reason == run::StopReason::interrupted;
}

void hint_at_resume() {
  fmt::print(stderr, "longhaul: interrupted; the same command with --resume goes on\n");
}

}  // namespace longhaul::cli
