#pragma once
// Recovery settles in a new view which clocks of the lost workers count, and with which clock one
// that has come back enters. Each live worker reports what it has. Of a lost one, or of the life
// before of one that has come back, those clocks count that anybody inside has in full; the lowest
// rank that has one sends it to those who lack it. With workers that pass factors on, a living
// origin sends again what a lost one has not passed on. Nothing else counts. Who is outside lacks
// what the giver has not done yet, whose state it will have. Ours.
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"
#include "longhaul/sync/sfb/store.h"

namespace longhaul::sync::sfb {

class Recovery {
 public:
  // A new view; what was reported for the one before is over. `live`: ascending. `giver`: one of
  // them.
  void begin(std::vector<Rank> live, Rank giver);
  // False: it has reported, or does not live.
  bool report(Rank from, const ControlHeader&);
  // Who has not reported.
  std::vector<Rank> missing() const;

  // When all have reported:
  bool is_outside(Rank live) const { return reports_.at(live).is_outside; }
  // which clocks count of one that is lost or outside, ascending,
  std::vector<Span> counted(Rank) const;
  // who sends such a clock,
  Rank donor(Rank origin, Round clock) const;
  // from which clock on somebody may lack clocks of an origin,
  Round done(Rank live, Rank origin) const;
  // the newest that anybody inside is in,
  Round newest() const;
  // whether it lacks this one,
  bool lacks(Rank live, Rank origin, Round clock) const;
  // and with which clock it enters, or has entered. One that is outside: the clock after the newest
  // that anybody is in, or that its former life counts in, and `apart` - 1 more.
  Round entry(Rank live, Round apart) const;
  void state(Archive& ar) { ar(live_, giver_, reports_); }

 private:
  bool holds(Rank live, Rank origin, Round clock) const;
  Rank who_knows(Rank live) const { return is_outside(live) ? giver_ : live; }

  std::vector<Rank> live_;
  Rank giver_ = 0;
  std::map<Rank, ControlHeader> reports_;
};

}  // namespace longhaul::sync::sfb
