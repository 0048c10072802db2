#include "longhaul/sync/sfb/spread.h"

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
    return std::size_t(std::lower_bound(workers.begin(), workers.end(), rank) - workers.begin());
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

}  // namespace

Spread spread_of(std::string_view name, const Place& place) {
  if (name == "full") return Spread::full;
  if (name == "tree") return Spread::tree;
  if (name == "site") return Spread::site;
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::worker)) workers.push_back(rank);
  const std::size_t sites = sites_of(workers, place).size();
  if (sites > 1 && sites < workers.size()) return Spread::site;
  return workers.size() > kMostInFull ? Spread::tree : Spread::full;
}

std::vector<Rank> next_hops(Spread spread, Rank origin, Rank self, const std::vector<Rank>& workers,
                            const Place& place) {
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
  std::sort(to.begin(), to.end());
  return to;
}

}  // namespace longhaul::sync::sfb
