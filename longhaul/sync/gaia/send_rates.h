#pragma once
// SendRates measures the send rate to each receiver and estimates how long a batch would take. A
// rate is the recent bytes over the time in which some were queued.
#include <algorithm>
#include <map>
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::gaia {

class SendRates {
  static constexpr double kKept =
      0.8;  // weight of earlier measurements, for each batch that has left

 public:
  void queued(Rank to, std::uint64_t bytes, Time now) {
    Link& link = links_[to];
    if (link.queued == 0) link.since = now;
    link.queued += bytes;
  }

  // Called when the host has taken the bytes.
  void sent(Rank to, std::uint64_t bytes, Time now) {
    const auto found = links_.find(to);
    if (found == links_.end()) return;
    Link& link = found->second;
    link.bytes = kKept * link.bytes + double(bytes);
    link.seconds = kKept * link.seconds + seconds(now - link.since);
    link.since = now;
    link.queued -= std::min(link.queued, bytes);
  }

  // Returns the seconds until the host has all queued bytes and `bytes` more. Nullopt: not known
  // yet, or everything so far left at once.
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
    Time since{0};                  // time of the last change while bytes are queued
    double bytes = 0, seconds = 0;  // recent sums; older ones have less weight
    void state(Archive& ar) { ar(queued, since, bytes, seconds); }
  };
  std::map<Rank, Link> links_;
};

}  // namespace longhaul::sync::gaia
