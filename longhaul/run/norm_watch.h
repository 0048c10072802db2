#pragma once
// Finds a site whose contributions are far larger than the others', as of a column in other units.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "longhaul/core/shared_members.h"
#include "longhaul/core/types.h"
#include "longhaul/run/nodes.h"

namespace longhaul::run {

class NormWatch {
 public:
  static constexpr double kFar = 100;  // times the median of the others' newest

  explicit NormWatch(const Members& members) : members_(members) {}
  // The norm of what a node contributes in its round. What to tell the user, who hears of a node
  // again when it has become ten times as far.
  std::optional<std::string> take(Rank rank, Round round, double norm) {
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

 private:
  const Members& members_;  // outlive this
  std::map<Rank, double> newest_;
  std::map<Rank, double> told_;  // how far a node was
};

}  // namespace longhaul::run
