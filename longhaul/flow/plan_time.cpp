#include "longhaul/flow/plan_time.h"

#include <algorithm>

#include "longhaul/flow/arborescence.h"
#include "longhaul/flow/link_windows.h"
#include "longhaul/flow/pair_shares.h"
#include "longhaul/flow/tree_load.h"

namespace longhaul::flow {
namespace {

// Part of the delay of the worst pair if it never gets more than its fair share. It gets more as
// soon as other pairs are done. Half of the delay, and no more than half of the busiest link's
// time, fits simulations of random networks.
constexpr double kUnfair = 0.5;
// Above this number of sites the estimate is the busiest link's time plus the longest path, because
// examining each link would take long.
constexpr std::size_t kMostSites = 16;

double longest_of(const std::vector<double>& lengths) {
  return *std::max_element(lengths.begin(), lengths.end());
}

}  // namespace

double PlanTime::unfair_s() const { return kUnfair * std::clamp(fair_s - busy_s, 0.0, busy_s); }

std::vector<double> piece_ways(const Wan& wan, const std::vector<double>& rates, double piece) {
  const auto n = std::uint32_t(wan.sites.size());
  std::vector<double> way(n * n);
  for (std::uint32_t from = 0; from < n; ++from)
    for (std::uint32_t to = 0; to < n; ++to)
      if (const double rate = rates[from * n + to]; rate > 0)
        way[from * n + to] = wan.pair(from, to).delay_s + piece / rate;
  return way;
}

PlanTime time_of(const std::vector<TwoTrees>& plan, const Wan& wan, const Capacities& at,
                 const ForestTask& task) {
  const std::size_t n = at.sites;
  TreeLoad load(at);
  std::vector<double> sent(n * n);  // shares of the vector
  std::vector<bool> used(n * n);
  for (const TwoTrees& trees : plan) {
    load.add(trees, trees.share);
    for (std::uint32_t site = 0; site < n; ++site) {
      if (site == trees.root) continue;
      for (const std::size_t pair :
           {site * n + trees.reduce_to[site], trees.spread_from[site] * n + site}) {
        sent[pair] += trees.share;
        used[pair] = true;
      }
    }
  }
  PlanTime time;
  time.busy_s = load.fullest() * task.bytes;
  const std::vector<double> shares = pair_shares(at, used);
  const std::vector<double> way = piece_ways(wan, shares, task.piece);
  std::vector<double> back(n * n);
  for (std::uint32_t from = 0; from < n; ++from)
    for (std::uint32_t to = 0; to < n; ++to) {
      const std::size_t pair = from * n + to;
      if (used[pair]) time.fair_s = std::max(time.fair_s, sent[pair] * task.bytes / shares[pair]);
      back[to * n + from] = way[pair];
    }
  for (const TwoTrees& trees : plan)
    time.latency_s = std::max(time.latency_s, longest_of(path_lengths(trees.reduce_to, back)) +
                                                  longest_of(path_lengths(trees.spread_from, way)));
  time.through_s =
      n <= kMostSites ? time_through(plan, at, {task.bytes, way}) : time.busy_s + time.latency_s;
  return time;
}

}  // namespace longhaul::flow
