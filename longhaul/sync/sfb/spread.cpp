#include "longhaul/sync/sfb/spread.h"

#include <algorithm>
#include <bit>

#include "longhaul/base/check.h"

namespace longhaul::sync::sfb {
namespace {

constexpr std::size_t kMostInFull = 8;

using Sites = std::map<std::string, std::vector<Rank>>;

Sites sites_of(const std::vector<Rank>& workers, const Place& place) {
  Sites sites;
  for (const Rank rank : workers) sites[place.member(rank).site].push_back(rank);
  return sites;
}

std::vector<Rank> tree_hops(Rank origin, Rank self, const std::vector<Rank>& workers) {
  const std::size_t count = workers.size();
  const auto position = [&](Rank rank) {
    return std::size_t(std::ranges::lower_bound(workers, rank) - workers.begin());
  };
  const std::size_t first = position(origin), own = (position(self) + count - first) % count;
  std::vector<Rank> to;
  for (std::size_t step = 1; own + step < count; step *= 2)
    if (step > own) to.push_back(workers[(first + own + step) % count]);
  return to;
}

std::vector<Rank> site_hops(Rank origin, Rank self, const std::vector<Rank>& workers,
                            const Place& place) {
  const Sites sites = sites_of(workers, place);
  const auto relay = [&](const std::vector<Rank>& of) { return of[origin % of.size()]; };
  const std::string& home = place.member(origin).site;
  const std::string& here = place.member(self).site;
  std::vector<Rank> to;
  if (self != origin && (here == home || relay(sites.at(here)) != self)) return to;
  for (const auto& [site, ranks] : sites) {
    if (site == here)
      to.insert(to.end(), ranks.begin(), ranks.end());
    else if (self == origin)
      to.push_back(relay(ranks));
  }
  return to;
}

// Those so far behind `self`, or before it, as the clock says.
std::vector<Rank> partial_others(Round clock, Rank self, std::uint32_t peers,
                                 const std::vector<Rank>& workers, bool behind) {
  const std::size_t count = workers.size();
  const auto at = std::ranges::lower_bound(workers, self);
  LH_CHECK(at != workers.end() && *at == self);
  const auto own = std::size_t(at - workers.begin());
  std::vector<Rank> ranks;
  const std::uint32_t each = partial_peers(peers, count);
  for (std::uint32_t i = 0; i < each; ++i) {
    const std::size_t offset = std::size_t((clock * each + i) % (count - 1)) + 1;
    ranks.push_back(workers[(own + (behind ? offset : count - offset)) % count]);
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace

Spread spread_of(std::string_view name, const Place& place) {
  if (name == "full") return Spread::full;
  if (name == "tree") return Spread::tree;
  if (name == "site") return Spread::site;
  if (name == "partial") return Spread::partial;
  const RankList workers = place.members.with(Role::worker);
  const std::size_t sites = sites_of(workers, place).size();
  if (sites > 1 && sites < workers.size()) return Spread::site;
  return workers.size() > kMostInFull ? Spread::tree : Spread::full;
}

std::vector<Rank> next_hops(Spread spread, Rank origin, Rank self, const std::vector<Rank>& workers,
                            const Place& place) {
  LH_CHECK(spread != Spread::partial);
  std::vector<Rank> to;
  if (spread == Spread::tree) {
    to = tree_hops(origin, self, workers);
  } else if (spread == Spread::site) {
    to = site_hops(origin, self, workers, place);
  } else if (self == origin) {
    to = workers;
  }
  std::erase(to, self);
  std::erase(to, origin);
  std::ranges::sort(to);
  return to;
}

std::uint32_t partial_peers(std::uint32_t peers, std::size_t workers) {
  if (workers < 2) return 0;
  if (peers == 0) peers = std::uint32_t(std::bit_width(workers - 1));
  return std::uint32_t(std::min<std::size_t>(peers, workers - 1));
}

std::uint32_t partial_cycle(std::uint32_t peers, std::size_t workers) {
  const std::size_t each = partial_peers(peers, workers);
  return each == 0 ? 0 : std::uint32_t((workers - 1 + each - 1) / each);
}

std::vector<Rank> partial_receivers(Round clock, Rank origin, std::uint32_t peers,
                                    const std::vector<Rank>& workers) {
  return partial_others(clock, origin, peers, workers, /*behind=*/true);
}

std::vector<Rank> partial_senders(Round clock, Rank self, std::uint32_t peers,
                                  const std::vector<Rank>& workers) {
  return partial_others(clock, self, peers, workers, /*behind=*/false);
}

}  // namespace longhaul::sync::sfb
