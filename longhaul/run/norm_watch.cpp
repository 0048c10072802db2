#include "longhaul/run/norm_watch.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "longhaul/run/nodes.h"

namespace longhaul::run {

std::optional<std::string> NormWatch::take(Rank rank, Round round, double norm) {
  if (!std::isfinite(norm)) return std::nullopt;  // that ends the run, and is told then
  newest_[rank] = norm;
  std::vector<double> others;
  for (const auto& [other, one] : newest_)
    if (other != rank) others.push_back(one);
  if (others.empty()) return std::nullopt;
  const auto middle = others.begin() + std::ptrdiff_t(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  const double times = norm / *middle;
  if (!(*middle > 0) || times < kFar) return std::nullopt;
  double& told = told_[rank];
  if (times < 10 * told) return std::nullopt;
  told = times;
  return fmt::format(
      "{}: what it contributes in round {} is {:.2g} times as large as the median of the others: "
      "are "
      "its data in other units? [data] standardise = true brings columns to one scale, [run] "
      "without leaves a site out",
      node_name(members_.at(rank)), round, times);
}

}  // namespace longhaul::run
