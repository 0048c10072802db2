#include "longhaul/sync/gaia/cut.h"

#include "longhaul/base/check.h"

namespace longhaul::sync::gaia {

void Cut::begin(Epoch epoch, const std::vector<Rank>& live) {
  epoch_ = epoch;
  live_ = live;
  reports_.clear();
}

bool Cut::report(Rank from, std::optional<Round> clock) {
  return reports_.try_emplace(from, clock).second;
}

std::vector<Rank> Cut::missing() const {
  std::vector<Rank> ranks;
  for (const Rank rank : live_)
    if (!reports_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

std::optional<Rank> Cut::donor() const {
  LH_CHECK(missing().empty());
  return donor_of_reported();
}

std::optional<Rank> Cut::donor_of_reported() const {
  std::optional<Rank> donor;
  for (const auto& [rank, clock] : reports_)  // of equal clocks the lowest rank
    if (clock && (!donor || *clock > *reports_.at(*donor))) donor = rank;
  return donor;
}

Round Cut::clock() const {
  const auto from = donor();
  LH_CHECK(from);
  return *reports_.at(*from);
}

bool Cut::needs_base(Rank rank, bool equal_clocks_are_equal) const {
  if (rank == donor()) return false;
  return !equal_clocks_are_equal || reports_.at(rank) != clock();
}

}  // namespace longhaul::sync::gaia
