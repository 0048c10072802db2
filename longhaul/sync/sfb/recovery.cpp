#include "longhaul/sync/sfb/recovery.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::sync::sfb {

void Recovery::begin(std::vector<Rank> live, Rank giver) {
  live_ = std::move(live);
  giver_ = giver;
  reports_.clear();
}

bool Recovery::report(Rank from, const ControlHeader& report) {
  if (!std::binary_search(live_.begin(), live_.end(), from)) return false;
  return reports_.try_emplace(from, report).second;
}

std::vector<Rank> Recovery::missing() const {
  std::vector<Rank> ranks;
  for (const Rank rank : live_)
    if (!reports_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

std::vector<Span> Recovery::counted(Rank origin) const {
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

bool Recovery::holds(Rank live, Rank origin, Round clock) const {
  const ControlHeader& report = reports_.at(live);
  return !report.is_outside && std::ranges::any_of(report.held, [&](const HeldClocks& held) {
    return held.origin == origin && clock >= held.from && clock - held.from < held.count;
  });
}

Rank Recovery::donor(Rank origin, Round clock) const {
  LH_CHECK(missing().empty());
  const auto found =
      std::ranges::find_if(live_, [&](Rank rank) { return holds(rank, origin, clock); });
  LH_CHECK(found != live_.end());
  return *found;
}

Round Recovery::done(Rank live, Rank origin) const {
  const ControlHeader& report = reports_.at(who_knows(live));
  return report.is_outside ? 0 : report.done.at(origin);
}

// The giver's state has what the giver has applied, in order; no clock that it holds beyond.
bool Recovery::lacks(Rank live, Rank origin, Round clock) const {
  return clock >= done(live, origin) && !holds(live, origin, clock);
}

Round Recovery::newest() const {
  Round clock = 0;
  for (const auto& [rank, report] : reports_)
    if (!report.is_outside) clock = std::max(clock, report.clock);
  return clock;
}

Round Recovery::entry(Rank live, Round apart) const {
  const ControlHeader& own = reports_.at(live);
  if (!own.is_outside) return own.entry;
  Round newest = std::max(own.clock, this->newest());
  for (const Span& span : counted(live)) newest = std::max(newest, span.end);
  return newest + apart;
}

}  // namespace longhaul::sync::sfb
