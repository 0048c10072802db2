#pragma once
// How fast datagrams are sent to one peer: the rate grows while the peer gets nearly all of them,
// and falls to a little below what it gets when more than a tenth is lost. Loss below that is the
// path's own. Not fair to TCP beside it: datagrams carry what may be lost, in a class that networks
// put behind all others.
#include <algorithm>

#include "longhaul/core/types.h"

namespace longhaul::net {

class DatagramRate {
 public:
  static constexpr double kFirst = 1.25e6, kLeast = 12.5e3, kMost = 1.25e9;  // bytes/s
  static constexpr double kMuchLoss = 0.1, kGrowth = 1.25, kBelow = 0.85;
  static constexpr Time kInterval = std::chrono::milliseconds(50);  // between two changes, at least
  static constexpr std::uint64_t kEnough = 8;                       // datagrams to judge by
  static constexpr double kBurst = 16 * 1024;                       // bytes

  // What a peer has got since the beginning: datagrams, their bytes, and the number of the last.
  struct Got {
    std::uint64_t highest = 0;  // numbers count from 1
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
  };

  double rate() const { return rate_; }
  // May a datagram be sent now? If not, when.
  bool may_send(Time now) {
    refill(now);
    if (tokens_ > 0) return true;
    was_limited_ = true;
    return false;
  }
  Time next(Time now) const {
    return now + from_seconds(std::max(0.0, -tokens_) / rate_) + std::chrono::microseconds(100);
  }
  void sent(std::size_t bytes) { tokens_ -= double(bytes); }

  void report(Time now, const Got& got) {
    // Reports may come late, out of order, or false.
    if (got.highest <= last_.highest || got.count < last_.count || got.bytes < last_.bytes) return;
    const std::uint64_t sent = got.highest - last_.highest;
    const std::uint64_t received = std::min(sent, got.count - last_.count);
    const double seconds_since = seconds(now - last_at_);
    if (sent < kEnough || now - last_at_ < kInterval) return;
    const double loss = 1 - double(received) / double(sent);
    const double delivered = double(got.bytes - last_.bytes) / seconds_since;
    if (loss > kMuchLoss)
      rate_ = std::min(rate_, kBelow * delivered);
    else if (was_limited_)
      rate_ *= kGrowth;
    rate_ = std::clamp(rate_, kLeast, kMost);
    was_limited_ = false;
    last_ = got;
    last_at_ = now;
  }

 private:
  void refill(Time now) {
    tokens_ = std::min(kBurst, tokens_ + seconds(now - filled_) * rate_);
    filled_ = now;
  }

  double rate_ = kFirst, tokens_ = kBurst;
  Time filled_{0}, last_at_{0};
  Got last_;
  bool was_limited_ = false;
};

}  // namespace longhaul::net
