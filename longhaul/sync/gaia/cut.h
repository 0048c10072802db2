#pragma once
// Cut brings all live sites to one base after a change of the membership. Whoever was lost may have
// sent its last updates to some sites only, and a hub may have taken sums with it; a site that has
// come back has no base. Each site reports the clock of its base; the one with the newest (of
// several one whose run is over, of several of those the lowest rank) is the donor and sends its
// base to those that need it. All go on from it, and send their own updates of later clocks again:
// no update of a live site is lost or counted twice, and those of a lost site are dropped at all
// sites alike. Ours.
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/sync/gaia/headers.h"

namespace longhaul::sync::gaia {

class Cut {
 public:
  // A new view; what was reported for the one before is over. `live`: ascending, with this node.
  void begin(Epoch epoch, const std::vector<Rank>& live) {
    epoch_ = epoch;
    live_ = live;
    reports_.clear();
  }

  using Standing = CutHeader::Standing;
  // The base of a site is of this clock; outside: it has none. False: it has reported.
  bool report(Rank from, Round clock, Standing standing = Standing::running) {
    return reports_.try_emplace(from, Reported{clock, standing}).second;
  }

  bool has_reported(Rank rank) const { return reports_.contains(rank); }
  // Who has not reported.
  std::vector<Rank> missing() const {
    return those_of(live_, [&](Rank rank) { return !reports_.contains(rank); });
  }

  // When all have; nothing: no live site has a base.
  std::optional<Rank> donor() const {
    LH_CHECK(missing().empty());
    return donor_of_reported();
  }

  // The donor, were those all that have reported.
  std::optional<Rank> donor_of_reported() const {
    std::optional<Rank> donor;
    const auto key = [&](Rank rank) {
      const Reported& report = reports_.at(rank);
      return std::pair(report.clock, report.standing);
    };
    for (const auto& [rank, report] : reports_)  // of equal ones the lowest rank
      if (report.standing != Standing::outside && (!donor || key(rank) > key(*donor))) donor = rank;
    return donor;
  }

  // Of the donor's base, and how far the donor has come.
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

  // Has this one another base than the donor's? Where bases are sums in one order, equal clocks are
  // equal bases.
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
