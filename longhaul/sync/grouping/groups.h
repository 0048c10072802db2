#pragma once
// Groups of workers with like data, by the sketches of their gradients.
#include <algorithm>
#include <cmath>
#include <map>

#include "longhaul/base/decimal.h"
#include "longhaul/core/types.h"
#include "longhaul/sync/grouping/kmeans.h"

namespace longhaul::sync::grouping {

// The ranks of each group ascending, groups by their lowest rank. `k` = 0: as many as fit
// (cluster()). A sketch of zeros is a group of its own; of no numbers at all, or if all are zeros,
// everybody is one group. Which rank a sketch is of has no influence on who it is grouped with.
inline std::vector<std::vector<Rank>> group_by_sketch(
    const std::map<Rank, std::vector<float>>& sketches, std::uint32_t k, std::uint64_t seed,
    std::uint64_t round) {
  std::vector<std::pair<std::vector<float>, Rank>> order;  // by sketch: ranks have no influence
  std::vector<std::vector<Rank>> groups;
  for (const auto& [rank, sketch] : sketches) {
    const bool zero = std::all_of(sketch.begin(), sketch.end(), [](float s) { return s == 0; });
    zero ? groups.push_back({rank}) : order.push_back({sketch, rank});
  }
  if (order.empty()) {
    std::vector<Rank> everybody;
    for (const auto& [rank, sketch] : sketches) everybody.push_back(rank);
    return {everybody};
  }
  std::sort(order.begin(), order.end());
  std::vector<Point> rows;
  for (const auto& [sketch, rank] : order) rows.emplace_back(sketch.begin(), sketch.end());
  const Labels labels = cluster(component_scores(std::move(rows)), k, seed, round);
  std::map<std::uint32_t, std::vector<Rank>> by_label;
  for (std::size_t i = 0; i < order.size(); ++i) by_label[labels[i]].push_back(order[i].second);
  for (auto& [label, members] : by_label) {
    std::sort(members.begin(), members.end());
    groups.push_back(std::move(members));
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

// ceil(rho members), at least 1: of whom a round waits for a fresh update.
inline std::uint64_t quota_of(double rho, std::uint64_t members) {
  return std::max<std::uint64_t>(1, std::uint64_t(whole_up(rho * double(members))));
}

// (1 + tau)^-1/2: what the weight of an update is multiplied by that is tau versions late.
inline double lateness_weight(std::uint64_t tau) { return 1 / std::sqrt(1 + double(tau)); }

}  // namespace longhaul::sync::grouping
