#include "longhaul/flow/capacities.h"

#include <algorithm>
#include <utility>

namespace longhaul::flow {
Wan at_highest(Wan wan) {
  for (const Traced& traced : wan.traces) {
    const double rate = traced.trace.highest();
    switch (traced.what) {
      case Traced::What::up:
        wan.sites[traced.a].up = rate;
        break;
      case Traced::What::down:
        wan.sites[traced.a].down = rate;
        break;
      case Traced::What::rate:
        wan.pairs.emplace(SitePair{traced.a, traced.b}, wan.pair(traced.a, traced.b))
            .first->second.rate = rate;
        break;
      case Traced::What::shared:
        wan.shared[traced.a].rate = rate;
        break;
      case Traced::What::delay:
      case Traced::What::loss:
        break;
    }
  }
  return wan;
}

Capacities::Capacities(const Wan& given) : sites(given.sites.size()) {
  const Wan wan = at_highest(given);
  shared = wan.shared;
  for (const Wan::Site& site : wan.sites) {
    up.push_back(site.up.value_or(kUnlimited));
    down.push_back(site.down.value_or(kUnlimited));
  }
  pairs.assign(sites * sites, 0);
  for (std::uint32_t from = 0; from < sites; ++from)
    for (std::uint32_t to = 0; to < sites; ++to)
      if (from != to) pairs[from * sites + to] = wan.capacity(from, to).value_or(kUnlimited);
}

double Capacities::out(std::size_t site) const {
  double sum = 0;
  for (std::size_t to = 0; to < sites; ++to) sum += pair(site, to);
  return std::min(up[site], sum);
}

double Capacities::in(std::size_t site) const {
  double sum = 0;
  for (std::size_t from = 0; from < sites; ++from) sum += pair(from, site);
  return std::min(down[site], sum);
}

double Capacities::cut(const std::vector<bool>& members) const {
  double ups = 0, downs = 0;
  for (std::size_t a = 0; a < sites; ++a) {
    double across = 0;  // from or to the other side
    for (std::size_t b = 0; b < sites; ++b)
      if (members[a] != members[b]) across += members[a] ? pair(a, b) : pair(b, a);
    (members[a] ? ups : downs) += std::min(members[a] ? up[a] : down[a], across);
  }
  const double least = std::min(ups, downs);
  if (shared.empty()) return least;
  // Every pair across counts once: with the first shared link that it passes, or alone.
  std::vector<double> left(sites * sites, 0);
  for (std::size_t a = 0; a < sites; ++a)
    for (std::size_t b = 0; b < sites; ++b)
      if (members[a] && !members[b]) left[a * sites + b] = pair(a, b);
  double sum = 0;
  for (const Wan::Shared& link : shared) {
    double across = 0;
    for (const auto& [a, b] : link.pairs) across += std::exchange(left[a * sites + b], 0);
    sum += std::min(link.rate, across);
  }
  for (double alone : left) sum += alone;
  return std::min(least, sum);
}

}  // namespace longhaul::flow
