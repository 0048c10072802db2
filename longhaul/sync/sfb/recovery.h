#pragma once
// Recovery settles after a loss which clocks of the lost workers count. Each survivor reports how
// many clocks of each worker it has in full. Of a lost one those count that any survivor has; the
// lowest rank that has them all sends them to those who lack some. With workers that pass factors
// on, a living origin sends again what a lost one has not passed on. Nothing else counts. Ours.
#include <map>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::sfb {

class Recovery {
 public:
  // A new view; what was reported for the one before is over. `live`: ascending.
  void begin(std::vector<Rank> live);
  // done[q]: clocks of rank q. False: it has reported, or does not live.
  bool report(Rank from, std::vector<Round> done);
  // Who has not reported.
  std::vector<Rank> missing() const;

  // When all have reported:
  // how many clocks of a lost worker count,
  Round clocks_of(Rank lost) const;
  // who sends them,
  Rank donor(Rank lost) const;
  // and how many of an origin's a survivor has.
  Round has(Rank survivor, Rank origin) const { return reports_.at(survivor).at(origin); }
  void state(Archive& ar) { ar(live_, reports_); }

 private:
  std::vector<Rank> live_;
  std::map<Rank, std::vector<Round>> reports_;
};

}  // namespace longhaul::sync::sfb
