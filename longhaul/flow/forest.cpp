#include "longhaul/flow/forest.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "longhaul/base/check.h"
#include "longhaul/flow/arborescence.h"
#include "longhaul/flow/chains.h"
#include "longhaul/flow/forest_search.h"
#include "longhaul/flow/link_windows.h"
#include "longhaul/flow/pair_shares.h"
#include "longhaul/flow/plan_time.h"

namespace longhaul::flow {
namespace {

// Share of time that a plan with one connection a port may take longer. Over four equal sites three
// bbr connections a port took 5 % longer than one (docs/results/overlays.md).
constexpr double kOneConnection = 0.02;
// A pair may carry this much of its fair share: a little more than it gets leaves the programme
// free to fill all links.
constexpr double kOfFairShare = 1.03;
// Highest latency of a tree in further plans, as a share of the latency of the plan without a
// limit.
constexpr double kShorter[] = {0.8, 0.65, 0.5};
// With more sites only one search is affordable, or one with and one without fair shares.
constexpr std::size_t kMaxShortened = 16, kMaxFitted = 64;
constexpr double kPartOfPiece = 0.5;  // share of a piece; trees with less are left out
// Work of all searches together: about a second on one slow core.
constexpr double kWork = 1e9;

class Choice {
 public:
  Choice(const Wan& wan, const ForestTask& task)
      : wan_(wan), at_(wan), n_(at_.sites), task_(task) {}

  ForestPlan plan() {
    const double floor_s = search(wan_).floor_s;
    if (floor_s > 0 && n_ > 2) {
      if (const auto wan = fitted()) search(*wan);
      if (task_.circle) prefer_circle();
    }
    best_.floor_s = floor_s;
    best_.busy_s = time_.busy_s;
    best_.latency_s = time_.latency_s;
    return std::move(best_);
  }

 private:
  // Plans for a network of these sites, again with shorter trees, and with all trees of these plans
  // together. Returns the first plan.
  ForestPlan search(const Wan& wan) {
    const bool shortens = n_ > 2 && n_ <= kMaxShortened;
    SearchLimits limits{.work = shortens ? kWork / 8 : kWork / 2};
    ForestPlan first = search_forest(wan, task_, limits);
    consider(first);
    if (!shortens || first.floor_s <= 0) return first;
    gather(first.trees);
    for (const double share : kShorter) {
      limits.longest = share * first.latency_s;
      const ForestPlan plan = search_forest(wan, task_, limits);
      gather(plan.trees);
      consider(plan);
    }
    share_anew(Capacities(wan));
    return first;
  }

  void gather(const std::vector<TwoTrees>& trees) {
    for (const TwoTrees& one : trees)
      if (known_.insert({one.root, one.reduce_to, one.spread_from}).second) found_.push_back(one);
  }

  void share_anew(const Capacities& at) {
    const PieceTimes times{task_.bytes,
                           piece_ways(wan_, pair_shares(at, all_pairs()), task_.piece)};
    ForestPlan plan;
    plan.trees = soonest_shares(found_, at, times, kPartOfPiece * task_.piece / task_.bytes);
    if (!plan.trees.empty()) consider(std::move(plan));
  }

  std::vector<bool> all_pairs() const {
    std::vector<bool> all(n_ * n_, true);
    for (std::size_t site = 0; site < n_; ++site) all[site * n_ + site] = false;
    return all;
  }

  void consider(ForestPlan plan) {
    const PlanTime time = time_of(plan.trees, wan_, at_, task_);
    if (!best_.trees.empty() && time.seconds() >= time_.seconds()) return;
    best_ = std::move(plan);
    time_ = time;
  }

  // Returns the network in which each pair carries at most what TCP leaves it while all pairs send.
  // Connections that share links fairly can keep a plan for it. They cannot keep a plan that gives
  // one connection of a port nine times as much as another. Both get the same at first, and traffic
  // behind the first one waits. Absent: connections share no link, or it has too many sites.
  std::optional<Wan> fitted() const {
    if (n_ > kMaxFitted) return std::nullopt;
    const std::vector<double> shares = pair_shares(at_, all_pairs());
    Wan wan = at_highest(wan_);
    bool shares_links = false;
    for (std::uint32_t from = 0; from < n_; ++from)
      for (std::uint32_t to = 0; to < n_; ++to) {
        if (from == to) continue;
        const double share = kOfFairShare * shares[from * n_ + to];
        auto& pair = wan.pairs.emplace(SitePair{from, to}, wan.pair(from, to)).first->second;
        if (share >= at_.pair(from, to)) continue;
        pair.rate = share;
        shares_links = true;
      }
    if (!shares_links) return std::nullopt;
    return wan;
  }

  // Selects a circle if it is fast enough. Each of its sites sends 2 (n-1)/n of the vector: no
  // circle if one cannot in time.
  void prefer_circle() {
    const double longest = time_.seconds() * (1 + kOneConnection);
    const double passed = 2 * task_.bytes * double(n_ - 1) / double(n_);
    for (std::size_t site = 0; site < n_; ++site)
      if (passed > longest * std::min(at_.out(site), at_.in(site))) return;
    Chains chains = plan_chains(wan_, at_, task_.piece);
    for (TwoTrees& trees : chains.trees) trees.share = 1.0 / double(n_);
    const PlanTime time = time_of(chains.trees, wan_, at_, task_);
    if (time.busy_s + time.unfair_s() + time.latency_s > longest) return;
    best_.trees = std::move(chains.trees);
    time_ = time;
  }

  const Wan& wan_;
  const Capacities at_;
  const std::size_t n_;
  const ForestTask task_;
  std::set<std::tuple<std::uint32_t, Parents, Parents>> known_;
  std::vector<TwoTrees> found_;  // trees of all searches
  ForestPlan best_;
  PlanTime time_;
};

}  // namespace

ForestPlan plan_forest(const Wan& wan, const ForestTask& task) {
  LH_CHECK(!wan.sites.empty());
  if (wan.sites.size() == 1) return {{{0, {0}, {0}, 1}}, 0, 0, 0};
  ForestPlan plan = Choice(wan, task).plan();
  std::stable_sort(plan.trees.begin(), plan.trees.end(),
                   [](const TwoTrees& a, const TwoTrees& b) { return a.share > b.share; });
  return plan;
}

}  // namespace longhaul::flow
