#include "longhaul/flow/relays.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace longhaul::flow {
namespace {

Rate smaller(Rate a, Rate b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

double number(Rate rate) { return rate.value_or(std::numeric_limits<double>::infinity()); }

// Of one way from a to b through r.
double rate_through(const Wan& wan, std::uint32_t a, std::uint32_t r, std::uint32_t b) {
  return std::min({number(wan.capacity(a, r)), number(wan.capacity(r, b)),
                   number(wan.sites[r].down), number(wan.sites[r].up)});
}

double delay_through(const Wan& wan, std::uint32_t a, std::uint32_t r, std::uint32_t b) {
  return wan.pair(a, r).delay_s + wan.pair(r, b).delay_s;
}

}  // namespace

std::vector<std::uint32_t> relays_of(const Wan& wan, const std::vector<bool>& dials_out,
                                     std::uint32_t a, std::uint32_t b) {
  struct Candidate {
    double rate, delay;
    std::uint32_t site;
  };
  std::vector<Candidate> candidates;
  for (std::uint32_t site = 0; site < wan.sites.size(); ++site) {
    if (dials_out[site]) continue;
    candidates.push_back({std::min(rate_through(wan, a, site, b), rate_through(wan, b, site, a)),
                          delay_through(wan, a, site, b) + delay_through(wan, b, site, a), site});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& x, const auto& y) {
    if (x.rate != y.rate) return x.rate > y.rate;
    return x.delay != y.delay ? x.delay < y.delay : x.site < y.site;
  });
  std::vector<std::uint32_t> sites;
  for (const Candidate& one : candidates)
    if (sites.size() < kMostRelays) sites.push_back(one.site);
  return sites;
}

Wan through_relays(Wan wan, const std::vector<bool>& dials_out) {
  std::vector<std::uint32_t> dialling;
  for (std::uint32_t site = 0; site < wan.sites.size(); ++site)
    if (dials_out[site]) dialling.push_back(site);
  if (dialling.size() < 2) return wan;
  const Wan direct = wan;
  for (const std::uint32_t a : dialling)
    for (const std::uint32_t b : dialling) {
      if (a == b) continue;
      const auto relays = relays_of(direct, dials_out, a, b);
      if (relays.empty()) continue;
      const std::uint32_t r = relays.front();
      const Wan::Pair &there = direct.pair(a, r), &on = direct.pair(r, b);
      wan.pairs[{a, b}] = {.rate = smaller(smaller(there.rate, on.rate),
                                           smaller(direct.sites[r].down, direct.sites[r].up)),
                           .delay_s = there.delay_s + on.delay_s,
                           .jitter_s = std::hypot(there.jitter_s, on.jitter_s),
                           .loss = 1 - (1 - there.loss) * (1 - on.loss),
                           .flow = smaller(there.flow, on.flow),
                           .loss_burst = std::max(there.loss_burst, on.loss_burst),
                           .relay = r};
    }
  return wan;
}

std::set<SitePair> relayed_pairs(const Wan& wan) {
  std::set<SitePair> pairs;
  for (const auto& [pair, link] : wan.pairs)
    if (link.relay) pairs.insert(pair);
  return pairs;
}

}  // namespace longhaul::flow
