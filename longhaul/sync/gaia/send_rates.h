#pragma once
// SendRates measures how fast what this site sends leaves it, receiver by receiver, and says how
// long a batch would take. A rate is that of recent bytes over the time in which some were queued.
#include <map>
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::gaia {

class SendRates {
 public:
  void queued(Rank to, std::uint64_t bytes, Time now);
  void sent(Rank to, std::uint64_t bytes, Time now);  // the host has them
  // Seconds until the host has all that is queued and so many bytes more. Nothing: not known yet,
  // or all that was sent left at once.
  std::optional<double> until_sent(Rank to, std::uint64_t bytes) const;
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
