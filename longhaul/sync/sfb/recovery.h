#pragma once
// Recovery settles in a new view which clocks of the lost workers count, and with which clock one
// that has come back enters. Each live worker reports what it has. Of a lost one, or of the life
// before of one that has come back, those clocks count that anybody inside has in full; the lowest
// rank that has one sends it to those who lack it. With workers that pass factors on, a living
// origin sends again what a lost one has not passed on. Nothing else counts. Who is outside lacks
// what the giver has not done yet, whose state it will have. Ours.
#include <algorithm>
#include <map>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/shared_members.h"
#include "longhaul/core/types.h"
#include "longhaul/sync/sfb/store.h"

namespace longhaul::sync::sfb {

class Recovery {
 public:
  // A new view; what was reported for the one before is over. `live`: ascending. `giver`: one of
  // them.
  void begin(std::vector<Rank> live, Rank giver) {
    live_ = std::move(live);
    giver_ = giver;
    reports_.clear();
  }

  // False: it has reported, or does not live.
  bool report(Rank from, const ControlHeader& report) {
    if (!std::ranges::binary_search(live_, from)) return false;
    return reports_.try_emplace(from, report).second;
  }

  // Who has not reported.
  std::vector<Rank> missing() const {
    return those_of(live_, [&](Rank rank) { return !reports_.contains(rank); });
  }

  // When all have reported:
  bool is_outside(Rank live) const { return reports_.at(live).is_outside; }
  // which clocks count of one that is lost or outside, ascending,
  std::vector<Span> counted(Rank origin) const {
    std::vector<Span> all, merged;
    for (const auto& [rank, report] : reports_)
      for (const HeldClocks& held : report.held)
        if (held.origin == origin && held.count > 0 && !report.is_outside)
          all.push_back({held.from, held.from + held.count});
    std::ranges::sort(all, {}, &Span::from);
    for (const Span& span : all) {
      if (!merged.empty() && span.from <= merged.back().end)
        merged.back().end = std::max(merged.back().end, span.end);
      else
        merged.push_back(span);
    }
    return merged;
  }

  // who sends such a clock,
  Rank donor(Rank origin, Round clock) const {
    LH_CHECK(missing().empty());
    const auto found =
        std::ranges::find_if(live_, [&](Rank rank) { return holds(rank, origin, clock); });
    LH_CHECK(found != live_.end());
    return *found;
  }

  // from which clock on somebody may lack clocks of an origin,
  Round done(Rank live, Rank origin) const {
    const ControlHeader& report = reports_.at(who_knows(live));
    return report.is_outside ? 0 : report.done.at(origin);
  }

  // the newest that anybody inside is in,
  Round newest() const {
    Round clock = 0;
    for (const auto& [rank, report] : reports_)
      if (!report.is_outside) clock = std::max(clock, report.clock);
    return clock;
  }

  // whether it lacks this one,
  // The giver's state has what the giver has applied, in order; no clock that it holds beyond.
  bool lacks(Rank live, Rank origin, Round clock) const {
    return clock >= done(live, origin) && !holds(live, origin, clock);
  }

  // and with which clock it enters, or has entered. One that is outside: the clock after the newest
  // that anybody is in, or that its former life counts in, and `apart` - 1 more.
  Round entry(Rank live, Round apart) const {
    const ControlHeader& own = reports_.at(live);
    if (!own.is_outside) return own.entry;
    Round newest = std::max(own.clock, this->newest());
    for (const Span& span : counted(live)) newest = std::max(newest, span.end);
    return newest + apart;
  }

  void state(Archive& ar) { ar(live_, giver_, reports_); }

 private:
  bool holds(Rank live, Rank origin, Round clock) const {
    const ControlHeader& report = reports_.at(live);
    return !report.is_outside && std::ranges::any_of(report.held, [&](const HeldClocks& held) {
      return held.origin == origin && clock >= held.from && clock - held.from < held.count;
    });
  }

  Rank who_knows(Rank live) const { return is_outside(live) ? giver_ : live; }

  std::vector<Rank> live_;
  Rank giver_ = 0;
  std::map<Rank, ControlHeader> reports_;
};

}  // namespace longhaul::sync::sfb
