#pragma once
// Cut brings all live sites to one base after a change of the members. A lost site may have sent
// its last updates to some sites only. If it was a hub, sums may be lost with it. A returned site
// has no base. Each site reports the clock of its base. The site with the newest clock is the
// donor. If several have it, a site whose run has ended comes first, then the lowest rank. The
// donor sends its base to the sites that need it. All sites continue from this base and resend
// their own updates of later clocks. So no update of a live site is lost or counted twice. The
// later updates of a lost site are dropped on every site. This protocol is ours.
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/sync/gaia/headers.h"

namespace longhaul::sync::gaia {

class Cut {
 public:
  // Starts a new view, without the reports of the previous one. `live`: ascending, with this node.
  void begin(Epoch epoch, const std::vector<Rank>& live) {
    epoch_ = epoch;
    live_ = live;
    reports_.clear();
  }

  using Standing = CutHeader::Standing;
  // Adds a report of the clock of a site's base; outside: no base. Returns false if the site has
  // reported before.
  bool report(Rank from, Round clock, Standing standing = Standing::running) {
    return reports_.try_emplace(from, Reported{clock, standing}).second;
  }

  bool has_reported(Rank rank) const { return reports_.contains(rank); }
  // Returns the sites that have not reported.
  std::vector<Rank> missing() const {
    return those_of(live_, [&](Rank rank) { return !reports_.contains(rank); });
  }

  // Returns the donor, when all sites have reported; null if no live site has a base.
  std::optional<Rank> donor() const {
    LH_CHECK(missing().empty());
    return donor_of_reported();
  }

  // Returns the donor among the sites that have reported.
  std::optional<Rank> donor_of_reported() const {
    std::optional<Rank> donor;
    const auto key = [&](Rank rank) {
      const Reported& report = reports_.at(rank);
      return std::pair(report.clock, report.standing);
    };
    for (const auto& [rank, report] : reports_)  // if equal, the lowest rank
      if (report.standing != Standing::outside && (!donor || key(rank) > key(*donor))) donor = rank;
    return donor;
  }

  // Return the clock of the donor's base, and the donor's standing.
  Round clock() const {
    const auto from = donor();
    LH_CHECK(from);
    return reports_.at(*from).clock;
  }

  Standing standing() const {
    const auto from = donor();
    LH_CHECK(from);
    return reports_.at(*from).standing;
  }

  // Returns true if this site's base differs from the donor's. If bases are sums in one order,
  // equal clocks mean equal bases.
  bool needs_base(Rank rank, bool equal_clocks_are_equal) const {
    if (rank == donor()) return false;
    const Reported& report = reports_.at(rank);
    if (report.standing == Standing::outside) return true;
    return !equal_clocks_are_equal || report.clock != clock();
  }

  Epoch epoch() const { return epoch_; }
  void state(Archive& ar) { ar(epoch_, live_, reports_); }

 private:
  struct Reported {
    Round clock = 0;
    Standing standing = Standing::running;
    void state(Archive& ar) { ar(clock, standing); }
  };
  Epoch epoch_ = 0;
  std::vector<Rank> live_;
  std::map<Rank, Reported> reports_;
};

}  // namespace longhaul::sync::gaia
