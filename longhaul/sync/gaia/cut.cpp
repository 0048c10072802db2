#include "longhaul/sync/gaia/cut.h"

#include "longhaul/base/check.h"

namespace longhaul::sync::gaia {

void Cut::begin(Epoch epoch, const std::vector<Rank>& live) {
  epoch_ = epoch;
  live_ = live;
  reports_.clear();
}

bool Cut::report(Rank from, Round clock, Standing standing) {
  return reports_.try_emplace(from, Reported{clock, standing}).second;
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
  const auto key = [&](Rank rank) {
    const Reported& report = reports_.at(rank);
    return std::pair(report.clock, report.standing);
  };
  for (const auto& [rank, report] : reports_)  // of equal ones the lowest rank
    if (report.standing != Standing::outside && (!donor || key(rank) > key(*donor))) donor = rank;
  return donor;
}

Round Cut::clock() const {
  const auto from = donor();
  LH_CHECK(from);
  return reports_.at(*from).clock;
}

Cut::Standing Cut::standing() const {
  const auto from = donor();
  LH_CHECK(from);
  return reports_.at(*from).standing;
}

bool Cut::needs_base(Rank rank, bool equal_clocks_are_equal) const {
  if (rank == donor()) return false;
  const Reported& report = reports_.at(rank);
  if (report.standing == Standing::outside) return true;
  return !equal_clocks_are_equal || report.clock != clock();
}

}  // namespace longhaul::sync::gaia
