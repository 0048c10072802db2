#pragma once
// SendRates measures how fast what this site sends leaves it, receiver by receiver, and says how
// long a batch would take. A rate is that of recent bytes over the time in which some were queued.
#include <algorithm>
#include <map>
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::gaia {

class SendRates {
  static constexpr double kKept =
      0.8;  // of what was measured before, with each batch that has left

 public:
  void queued(Rank to, std::uint64_t bytes, Time now) {
    Link& link = links_[to];
    if (link.queued == 0) link.since = now;
    link.queued += bytes;
  }

  // the host has them
  void sent(Rank to, std::uint64_t bytes, Time now) {
    const auto found = links_.find(to);
    if (found == links_.end()) return;
    Link& link = found->second;
    link.bytes = kKept * link.bytes + double(bytes);
    link.seconds = kKept * link.seconds + seconds(now - link.since);
    link.since = now;
    link.queued -= std::min(link.queued, bytes);
  }

  // Seconds until the host has all that is queued and so many bytes more. Nothing: not known yet,
  // or all that was sent left at once.
  std::optional<double> until_sent(Rank to, std::uint64_t bytes) const {
    const auto found = links_.find(to);
    if (found == links_.end() || found->second.seconds <= 0) return std::nullopt;
    const Link& link = found->second;
    return double(link.queued + bytes) * link.seconds / link.bytes;
  }

  void clear() { links_.clear(); }
  void state(Archive& ar) { ar(links_); }

 private:
  struct Link {
    std::uint64_t queued = 0;       // bytes that the host does not have
    Time since{0};                  // of the last change while something is queued
    double bytes = 0, seconds = 0;  // recent ones: older ones count less
    void state(Archive& ar) { ar(queued, since, bytes, seconds); }
  };
  std::map<Rank, Link> links_;
};

}  // namespace longhaul::sync::gaia
