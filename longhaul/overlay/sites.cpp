#include "longhaul/overlay/sites.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string_view>

#include "longhaul/base/decimal.h"
#include "longhaul/flow/bound.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::overlay {
namespace {

// The network between these sites alone.
flow::Wan network_of(const SiteGroups& groups, const flow::Wan* whole) {
  if (whole) return flow::among(*whole, groups.sites);
  flow::Wan alike;
  for (std::uint32_t i = 0; i < groups.size(); ++i)
    alike.sites.push_back({.name = {}, .up = 1e6, .down = 1e6, .lan = {}});
  return alike;
}

Tree led_tree(const Tree& between, const SiteGroups& groups, std::size_t turn) {
  const auto leader = [&](std::uint32_t site) {
    return groups.places[site][turn % groups.places[site].size()];
  };
  const auto speaker = [&](std::uint32_t site) {
    const auto& server = groups.server;
    return server && server->site == site ? server->place : leader(site);
  };
  std::size_t nodes = groups.server ? 1 : 0;
  for (const auto& places : groups.places) nodes += places.size();
  Tree tree{.root = speaker(between.root),
            .reduce_to = std::vector<std::uint32_t>(nodes),
            .spread_from = std::vector<std::uint32_t>(nodes)};
  const auto link = [&](std::uint32_t place, std::uint32_t up, std::uint32_t down) {
    tree.reduce_to[place] = up;
    tree.spread_from[place] = down;
  };
  for (std::uint32_t site = 0; site < groups.size(); ++site) {
    for (const std::uint32_t place : groups.places[site]) {
      const std::uint32_t over = place == leader(site) ? speaker(site) : leader(site);
      link(place, over, over);
    }
    link(speaker(site), speaker(between.reduce_to[site]), speaker(between.spread_from[site]));
  }
  return tree;
}

}  // namespace

std::vector<std::uint32_t> number_sites(const Place& place) {
  std::map<std::string_view, std::uint32_t> numbers;
  std::vector<std::uint32_t> sites;
  for (const Member& member : *place.members)
    sites.push_back(numbers.try_emplace(member.site, numbers.size()).first->second);
  return sites;
}

std::uint32_t SiteGroups::largest() const {
  std::size_t most = 0;
  for (const auto& group : places) most = std::max(most, group.size());
  return std::uint32_t(most);
}

std::optional<std::uint32_t> SiteGroups::index_of(std::uint32_t site) const {
  const auto found = std::ranges::find(sites, site);
  if (found == sites.end()) return std::nullopt;
  return std::uint32_t(found - sites.begin());
}

SiteGroups group_by_site(const GroupMembers& team, const std::vector<std::uint32_t>& site_of) {
  SiteGroups groups;
  std::map<std::uint32_t, std::uint32_t> index;
  const auto group_of = [&](Rank rank) {
    const auto [found, is_new] = index.try_emplace(site_of[rank], groups.size());
    if (is_new) {
      groups.sites.push_back(site_of[rank]);
      groups.places.emplace_back();
    }
    return found->second;
  };
  const auto members = std::uint32_t(team.members.size());
  for (std::uint32_t place = 0; place < members; ++place)
    groups.places[group_of(team.members[place])].push_back(place);
  if (team.nodes() > members) groups.server = {members, group_of(team.node(members))};
  return groups;
}

// Plans trees, or returns a kept plan. All nodes of a simulated run plan for the same network, and
// again after every loss. A plan depends only on its arguments, so one node computes it for all
// nodes.
static flow::ForestPlan plan_once(const flow::Wan& wan, const flow::ForestTask& task) {
  struct Known {
    flow::Wan wan;
    flow::ForestTask task;
    flow::ForestPlan plan;
  };
  constexpr std::size_t kKept = 8;
  thread_local std::deque<Known> newest;
  const auto known = std::ranges::find_if(
      newest, [&](const Known& one) { return one.task == task && one.wan == wan; });
  if (known != newest.end()) return known->plan;
  newest.push_front({wan, task, flow::plan_forest(wan, task)});
  if (newest.size() > kKept) newest.pop_back();
  return newest.front().plan;
}

SitePlan plan_trees(const SiteGroups& groups, const flow::Wan* network, const Partition& grid) {
  return plan_between(network_of(groups, network), grid, network != nullptr);
}

SitePlan plan_between(const flow::Wan& between, const Partition& grid, bool circle) {
  const double value = sizeof(float) * flow::kIpPerByte;
  flow::ForestPlan plan = plan_once(
      between, {double(grid.length()) * value, double(grid.range(0).length) * value, circle});
  SitePlan made;
  std::uint32_t hops = 1;
  for (flow::TwoTrees& planned : plan.trees) {
    made.trees.push_back(
        {{planned.root, std::move(planned.reduce_to), std::move(planned.spread_from)},
         planned.share});
    hops = std::max(hops, hops_of(made.trees.back().tree));
  }
  // At each link a piece lets other pieces pass for the time of one link of the longest path. With
  // a longer lag, the links of deep trees, which wait for other links, would be idle at first.
  if (plan.busy_s > 0) made.lag = std::min(1.0, plan.latency_s / hops / plan.busy_s);
  return made;
}

ReducePlan over_sites(const SitePlan& plan, const SiteGroups& groups, std::size_t pieces) {
  ReducePlan all = over_sites(plan.trees, groups, 1, pieces);
  if (plan.lag < 1) all.lag = std::uint32_t(whole_down(plan.lag * double(pieces)));
  return all;
}

// A tree's turns lie apart, so that of few pieces each tree between sites has its part.
ReducePlan over_sites(const std::vector<SiteTree>& trees, const SiteGroups& groups,
                      std::uint32_t turns, std::size_t pieces) {
  ReducePlan plan{.trees = {}, .tree_of = {}, .how = {.interleaved = true}};
  std::vector<double> shares;
  for (std::uint32_t turn = 0; turn < turns; ++turn)
    for (std::size_t t = 0; t < trees.size(); ++t) {
      plan.trees.push_back(led_tree(trees[t].tree, groups, t + turn));
      shares.push_back(trees[t].share / turns);
    }
  plan.tree_of = deal_pieces(pieces, shares);
  return plan;
}

std::vector<std::uint32_t> deal_pieces(std::size_t pieces, const std::vector<double>& shares) {
  std::vector<std::uint32_t> tree_of;
  std::vector<double> owed(shares.size());
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    for (std::size_t tree = 0; tree < owed.size(); ++tree) owed[tree] += shares[tree];
    const auto most = std::ranges::max_element(owed);
    *most -= 1;
    tree_of.push_back(std::uint32_t(most - owed.begin()));
  }
  return tree_of;
}

std::uint64_t piece_length(std::uint64_t length, std::uint64_t pieces, std::uint64_t chunk,
                           std::uint64_t shortest) {
  return std::min(chunk, std::max((length + pieces - 1) / pieces, shortest));
}

}  // namespace longhaul::overlay
