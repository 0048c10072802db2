#pragma once
// Recovery determines in a new view which clocks of the lost workers count, and the entry clock of
// a returned worker. Each live worker reports the clocks that it has. A clock of a lost worker, or
// of the former life of a returned one, counts if a worker inside has it in full. The lowest rank
// that has it sends it to the workers that lack it. If workers pass factors on, a live origin
// resends the factors that a lost worker has not passed on. No other clock counts. A worker outside
// has no model yet. It lacks the clocks that the giver has not done, because it will have the
// giver's state. This protocol is ours.
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
  // Starts a new view, without the reports of the previous one. `live`: ascending. `giver`: one of
  // them.
  void begin(std::vector<Rank> live, Rank giver) {
    live_ = std::move(live);
    giver_ = giver;
    reports_.clear();
  }

  // Adds a report. Returns false if the worker has reported before or is not live.
  bool report(Rank from, const ControlHeader& report) {
    if (!std::ranges::binary_search(live_, from)) return false;
    return reports_.try_emplace(from, report).second;
  }

  // Returns the workers that have not reported.
  std::vector<Rank> missing() const {
    return those_of(live_, [&](Rank rank) { return !reports_.contains(rank); });
  }

  // The functions below must be called after all workers have reported.
  bool is_outside(Rank live) const { return reports_.at(live).is_outside; }
  // Returns the clocks that count of a worker that is lost or outside, ascending.
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

  // Returns the worker that sends such a clock.
  Rank donor(Rank origin, Round clock) const {
    LH_CHECK(missing().empty());
    const auto found =
        std::ranges::find_if(live_, [&](Rank rank) { return holds(rank, origin, clock); });
    LH_CHECK(found != live_.end());
    return *found;
  }

  // Returns the clock from which on `live` can lack clocks of `origin`.
  Round done(Rank live, Rank origin) const {
    const ControlHeader& report = reports_.at(who_knows(live));
    return report.is_outside ? 0 : report.done.at(origin);
  }

  // Returns the newest clock that a worker inside is in.
  Round newest() const {
    Round clock = 0;
    for (const auto& [rank, report] : reports_)
      if (!report.is_outside) clock = std::max(clock, report.clock);
    return clock;
  }

  // Returns true if `live` lacks this clock. The giver's state has the clocks that the giver has
  // applied, in order, and none that it holds beyond.
  bool lacks(Rank live, Rank origin, Round clock) const {
    return clock >= done(live, origin) && !holds(live, origin, clock);
  }

  // Returns the clock with which `live` enters or has entered. A worker outside enters `apart`
  // clocks after the newest one that a worker inside is in, or that its former life counts in.
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
