#include "longhaul/report/seed_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <fmt/format.h>

namespace longhaul::report {
namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();
}

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

void Outcome::set_score(std::optional<double> bits_per_byte, std::optional<double> accuracy,
                        std::optional<double> loss) {
  const bool by_accuracy = !bits_per_byte && accuracy && (*accuracy > 0 || !loss);
  score = bits_per_byte ? bits_per_byte : by_accuracy ? accuracy : loss;
  lower_is_better = !by_accuracy;
}

Standing standing_of(const std::vector<Outcome>& runs) {
  Standing standing;
  std::vector<double> times, scores, ends, bytes;
  for (const Outcome& run : runs) {
    standing.diverged |= run.diverged;
    if (run.target_s) times.push_back(*run.target_s);
    if (run.score) scores.push_back(*run.score), standing.lower_is_better = run.lower_is_better;
    if (run.time_s) ends.push_back(*run.time_s);
    bytes.push_back(run.wan_bytes);
  }
  standing.reached = times.size();
  // A run that does not get there takes longer than any that does.
  if (2 * times.size() > runs.size()) {
    standing.target = spread_of(times);
    times.resize(runs.size(), kNever);
    standing.target->median = median(times);
  }
  standing.score = spread_of(scores);
  standing.time = spread_of(ends);
  standing.wan_bytes = median(bytes);
  return standing;
}

namespace {

// Smaller is better.
auto order_of(const Standing& s, const std::string& label) {
  const int place = s.diverged ? 2 : s.target ? 0 : 1;
  double score = s.score ? s.score->median : s.time ? s.time->median : kNever;
  if (s.score && !s.lower_is_better) score = -score;
  if (s.target) score = 0;
  return std::tuple(place, s.target ? s.target->median : 0, score, s.wan_bytes, label);
}

// What decides between a combination and the first, of one seed; less is better.
double deciding_value(const Outcome& run, const Standing& first) {
  if (run.diverged) return std::numeric_limits<double>::quiet_NaN();
  if (!first.target && !first.score) return run.time_s.value_or(kNever);
  const std::optional<double> value = first.target ? run.target_s : run.score;
  if (!value || !std::isfinite(*value)) return kNever;
  return first.target || first.lower_is_better ? *value : -*value;
}

}  // namespace

bool is_ahead(const Standing& a, const std::string& label_a, const Standing& b,
              const std::string& label_b) {
  return order_of(a, label_a) < order_of(b, label_b);
}

std::vector<Difference> differences_from_first(const std::vector<std::vector<Outcome>>& groups,
                                               const Standing& first) {
  std::vector<std::vector<double>> values;
  for (const auto& runs : groups) {
    values.emplace_back();
    for (const Outcome& run : runs)
      if (!first.target || run.time_s)  // what is under way may get there yet
        values.back().push_back(deciding_value(run, first));
  }
  return differences_from_first(values);
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
