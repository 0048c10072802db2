#include "longhaul/flow/capacities.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace longhaul::flow {
namespace {

// Rates only: bounds and plans leave loss out, and take delays as they are.
void follow(Wan& wan, const Traced& traced, double rate) {
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

}  // namespace

Wan at_highest(Wan wan) {
  for (const Traced& traced : wan.traces) follow(wan, traced, traced.trace.highest());
  return wan;
}

Wan divided(Wan wan, double by) {
  const auto divide = [by](Rate& rate) {
    if (rate) *rate /= by;
  };
  for (Wan::Site& site : wan.sites) {
    divide(site.up);
    divide(site.down);
    divide(site.lan);
  }
  const auto divide_pair = [&](Wan::Pair& pair) {
    divide(pair.rate);
    divide(pair.flow);
  };
  divide_pair(wan.usual);
  for (auto& [sites, pair] : wan.pairs) divide_pair(pair);
  for (Wan::Shared& shared : wan.shared) shared.rate /= by;
  for (Traced& traced : wan.traces) {
    if (traced.what == Traced::What::delay || traced.what == Traced::What::loss) continue;
    for (double& value : traced.trace.values) value /= by;
    traced.trace.low /= by;
    traced.trace.high /= by;
  }
  return wan;
}

Wan at_time(Wan wan, std::uint64_t seed, std::chrono::nanoseconds time) {
  for (std::uint32_t i = 0; i < wan.traces.size(); ++i) {
    const Trace& trace = wan.traces[i].trace;
    TraceSegment segment = first_segment(trace, seed, i);
    while (segment.until <= time) segment = next_segment(trace, seed, i, segment);
    follow(wan, wan.traces[i], segment.value);
  }
  wan.traces.clear();
  return wan;
}

Wan among(const Wan& given, const std::vector<std::uint32_t>& sites) {
  const Wan whole = at_highest(given);
  Wan part;
  part.streams = whole.streams;
  part.usual = whole.usual;
  std::map<std::uint32_t, std::uint32_t> number;
  for (const std::uint32_t site : sites) {
    number[site] = std::uint32_t(part.sites.size());
    part.sites.push_back(whole.sites[site]);
    part.sites.back().nodes = 1;
  }
  const auto renamed = [&](const SitePair& pair) -> std::optional<SitePair> {
    const auto from = number.find(pair.first), to = number.find(pair.second);
    if (from == number.end() || to == number.end()) return std::nullopt;
    return SitePair{from->second, to->second};
  };
  for (const auto& [pair, way] : whole.pairs)
    if (const auto own = renamed(pair)) part.pairs[*own] = way;
  for (const Wan::Shared& link : whole.shared) {
    Wan::Shared own{link.name, link.rate, {}};
    for (const SitePair& pair : link.pairs)
      if (const auto crossing = renamed(pair)) own.pairs.push_back(*crossing);
    if (!own.pairs.empty()) part.shared.push_back(std::move(own));
  }
  return part;
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

double Capacities::largest() const {
  double largest = 0;
  auto see = [&](double rate) {
    if (std::isfinite(rate)) largest = std::max(largest, rate);
  };
  for (const auto* rates : {&up, &down, &pairs})
    for (double rate : *rates) see(rate);
  for (const Wan::Shared& link : shared) see(link.rate);
  return largest;
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
