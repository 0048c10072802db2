#pragma once
// How long the datagrams may be that one peer gets: probes by what is acknowledged (RFC 8899), not
// by what routers say. It begins with kBase, which nearly all paths take, and tries longer ones one
// after the other; three probes without an answer end the search for ten minutes. What is in use is
// probed again all the time: after three in a row without an answer, while shorter datagrams are
// answered, the path is taken for one that swallows them (a black hole), and the next shorter size
// is used; below kBase none.
//
// The caller sends what probe() says, once a second or after an answer, and tells what was
// answered. One per peer.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "longhaul/core/types.h"

namespace longhaul::net {

class DatagramPath {
 public:
  // Bytes of UDP. 1,228: a frame of 1,200 that is sealed. The others: IP packets of 1,400, 1,500
  // and 9,000, with a header of IPv6 and of IPv4.
  static constexpr std::array<std::uint32_t, 6> kSizes = {1228, 1372, 1452, 1472, 8952, 8972};
  static constexpr std::uint32_t kBase = kSizes.front(), kLongest = kSizes.back();
  static constexpr int kTries = 3;
  static constexpr Time kSearchAgain = std::chrono::minutes(10);

  // The most that the peer gets; 0: not even kBase.
  std::uint32_t size() const { return level_ < 0 ? 0 : kSizes[std::size_t(level_)]; }

  // Whether longer ones are tried: the next probe may follow an answer at once.
  bool may_search(Time now) const { return level_ + 1 < int(kSizes.size()) && now >= search_at_; }
  // Bytes of the next probe; the one before counts as lost if it was not answered and `is_heard`:
  // the peer has answered shorter datagrams since. If it has not, nothing is learnt.
  std::uint32_t probe(Time now, bool is_heard) {
    if (awaited_ && is_heard) missed(now);
    searches_ = may_search(now) && (level_ < 0 || !searches_);  // in turns with what is in use
    awaited_ = std::max(0, searches_ ? level_ + 1 : level_);
    return kSizes[std::size_t(*awaited_)];
  }
  // The peer has got the last probe.
  void answered() {
    if (!awaited_) return;
    missed_[*awaited_ > level_] = 0;
    level_ = std::max(level_, *awaited_);
    awaited_.reset();
  }

 private:
  void missed(Time now) {
    const bool is_longer = *awaited_ > level_;
    if (++missed_[is_longer] < kTries) return;
    missed_ = {};
    if (!is_longer) --level_;
    // Without any size that passes it goes on trying.
    search_at_ = level_ < 0 ? now : now + kSearchAgain;
  }

  int level_ = 0;                // of kSizes, or -1
  std::array<int, 2> missed_{};  // probes without an answer: of what is in use, and of longer ones
  bool searches_ = false;
  std::optional<int> awaited_;  // the level of the last probe, until it is answered
  Time search_at_{0};
};

}  // namespace longhaul::net
