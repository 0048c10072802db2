#include "longhaul/sync/skewscout/tally.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::sync::skewscout {

std::uint32_t host_of(std::uint32_t k, Round travel, std::uint32_t sites) {
  LH_CHECK(sites >= 2 && k < sites);
  return std::uint32_t((k + 1 + travel % (sites - 1)) % sites);
}

void Tally::home(Rank site, Score score, double exchanges, std::uint64_t steps) {
  homes_[site] = {score, exchanges, steps};
}

void Tally::visit(Rank site, Score score) { visits_[site] = score; }

std::vector<Rank> Tally::missing(const std::vector<Rank>& sites) const {
  std::vector<Rank> ranks;
  for (const Rank site : sites)
    if (!homes_.contains(site) || !visits_.contains(site)) ranks.push_back(site);
  return ranks;
}

std::optional<Tally::Measured> Tally::measured() const {
  double loss = 0, exchanges = 0, accuracy = 0;
  std::uint64_t pairs = 0, steps = 0;
  for (const auto& [site, home] : homes_) {
    exchanges += home.exchanges;
    steps += home.steps;
    const auto visit = visits_.find(site);
    if (visit == visits_.end()) continue;
    const Score &at_home = home.score, &at_host = visit->second;
    const bool is_finite = at_home.is_finite && at_host.is_finite;
    if (is_finite && (at_home.samples == 0 || at_host.samples == 0)) continue;
    ++pairs;
    accuracy += at_home.is_finite ? at_home.accuracy() : 0;
    loss += is_finite ? std::max(0.0, at_home.accuracy() - at_host.accuracy()) : 1;
  }
  if (pairs == 0 || steps == 0) return std::nullopt;
  return Measured{loss / double(pairs), exchanges / double(steps), accuracy / double(pairs)};
}

}  // namespace longhaul::sync::skewscout
