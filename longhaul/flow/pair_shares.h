#pragma once
// What TCP's fair sharing gives each ordered pair of sites while a set of them sends.
#include <cmath>
#include <vector>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/fair_share.h"

namespace longhaul::flow {

// Bytes per second of each ordered pair, by row, while all pairs with `busy` send without a pause
// on one connection each: max-min fair (fair_share.h). 0 for the others; kUnlimited where nothing
// limits.
inline std::vector<double> pair_shares(const Capacities& at, const std::vector<bool>& busy) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const std::size_t n = at.sites;
  std::vector<double> capacities;
  const auto link = [&](double rate) {
    if (!std::isfinite(rate)) return kNone;
    capacities.push_back(rate);
    return std::uint32_t(capacities.size() - 1);
  };
  std::vector<std::uint32_t> up, down;
  for (std::size_t site = 0; site < n; ++site) {
    up.push_back(link(at.up[site]));
    down.push_back(link(at.down[site]));
  }
  std::vector<std::vector<std::uint32_t>> links(n * n);
  const auto cross = [&](std::size_t pair, std::uint32_t one) {
    if (one != kNone) links[pair].push_back(one);
  };
  for (std::size_t pair = 0; pair < n * n; ++pair) {
    cross(pair, up[pair / n]);
    cross(pair, down[pair % n]);
    cross(pair, link(at.pairs[pair]));
  }
  for (const Wan::Shared& shared : at.shared) {
    const std::uint32_t one = link(shared.rate);
    for (const auto& [from, to] : shared.pairs) cross(from * n + to, one);
  }
  std::vector<FairFlow> flows;
  std::vector<std::uint32_t> crossings;
  for (std::size_t pair = 0; pair < n * n; ++pair) {
    if (!busy[pair]) continue;
    flows.push_back(
        {.first = std::uint32_t(crossings.size()), .links = std::uint32_t(links[pair].size())});
    crossings.insert(crossings.end(), links[pair].begin(), links[pair].end());
  }
  FairShare share;
  const std::vector<double>& rates = share.solve(capacities, flows, crossings);
  std::vector<double> shares(n * n);
  for (std::size_t pair = 0, flow = 0; pair < n * n; ++pair)
    if (busy[pair]) shares[pair] = rates[flow++];
  return shares;
}

}  // namespace longhaul::flow
