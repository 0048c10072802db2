#include "longhaul/report/seed_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace longhaul::report {

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<Spread> spread_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return Spread{median(values), *low, *high};
}

Difference difference_of(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2 || b.size() < 2) return Difference::one_seed;
  const auto is_nan = [](double value) { return std::isnan(value); };
  for (const auto* values : {&a, &b})
    if (std::any_of(values->begin(), values->end(), is_nan)) return Difference::clear;
  const Spread one = *spread_of(a), two = *spread_of(b);
  const double begin = std::max(one.min, two.min), end = std::min(one.max, two.max);
  return begin <= end && std::isfinite(begin) ? Difference::tie : Difference::clear;
}

std::vector<Difference> differences_from_first(const std::vector<std::vector<double>>& values) {
  std::vector<Difference> all(values.size(), Difference::clear);
  for (std::size_t i = 1; i < values.size(); ++i) {
    all[i] = difference_of(values[0], values[i]);
    if (all[i] == Difference::tie || all[0] == Difference::clear) all[0] = all[i];
  }
  return all;
}

std::string names_text(const std::vector<std::string>& names) {
  const std::size_t shown = names.size() > 4 ? 3 : names.size();
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i > 0 && i + 1 == names.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + names[i];
  }
  if (shown < names.size()) text += fmt::format(" and {} others", names.size() - shown);
  return text;
}

}  // namespace longhaul::report
