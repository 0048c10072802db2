#include "longhaul/sync/gaia/routes.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::sync::gaia {
namespace {

std::vector<Rank> without(std::vector<Rank> ranks, Rank self) {
  std::erase(ranks, self);
  std::ranges::sort(ranks);
  return ranks;
}

std::uint32_t group_with(const Groups& groups, Rank rank) {
  for (std::uint32_t g = 0; g < groups.members.size(); ++g)
    if (std::ranges::count(groups.members[g], rank)) return g;
  LH_CHECK(false);
  return 0;
}

void add_flow(Routes& routes, std::vector<Slot> from, std::vector<Rank> to, Slot as) {
  std::ranges::sort(from);
  std::ranges::sort(to);
  if (!from.empty() && !to.empty()) routes.flows.push_back({std::move(from), std::move(to), as});
}

}  // namespace

std::set<Slot> Routes::slot_numbers() const {
  std::set<Slot> numbers;
  for (const auto& [slot, rank] : slots) numbers.insert(slot);
  return numbers;
}

Routes direct_routes(const std::vector<Rank>& live, Rank self) {
  Routes routes;
  for (const Rank rank : live) routes.slots[rank] = rank;
  routes.flows.push_back({{self}, without(live, self), self});
  return routes;
}

Routes hub_routes(const Groups& groups, std::uint32_t size, Rank self) {
  const std::uint32_t mine = group_with(groups, self);
  const std::vector<Rank>& group = groups.members[mine];
  Routes routes = direct_routes(group, self);
  const Slot others = size + std::uint32_t(groups.members.size());
  if (groups.members.size() == 1) return routes;
  if (self != group.front()) {
    routes.slots[others] = group.front();
    return routes;
  }
  std::vector<Rank> hubs;
  std::vector<Slot> sums;
  for (std::uint32_t g = 0; g < groups.members.size(); ++g) {
    if (g == mine) continue;
    hubs.push_back(groups.members[g].front());
    sums.push_back(size + g);
    routes.slots[size + g] = groups.members[g].front();
  }
  add_flow(routes, {group.begin(), group.end()}, hubs, size + mine);
  add_flow(routes, sums, without(group, self), others);
  return routes;
}

Routes peer_routes(const Groups& groups, std::uint32_t size, Rank self) {
  const std::uint32_t mine = group_with(groups, self);
  const std::vector<Rank>& group = groups.members[mine];
  Routes routes = direct_routes(group, self);
  std::vector<Rank> partners;
  for (const auto& [pair, peers] : groups.peers) {
    if (pair.first != mine && pair.second != mine) continue;
    const bool is_first = pair.first == mine;
    const Rank ours = is_first ? peers.first : peers.second;
    const Rank theirs = is_first ? peers.second : peers.first;
    const std::uint32_t other = is_first ? pair.second : pair.first;
    routes.slots[size + other] = ours == self ? theirs : ours;
    if (ours != self) continue;
    partners.push_back(theirs);
    add_flow(routes, {size + other}, without(group, self), size + other);
  }
  add_flow(routes, {group.begin(), group.end()}, partners, size + mine);
  return routes;
}

}  // namespace longhaul::sync::gaia
