#pragma once
// Search for the longest datagrams that one peer receives. It relies on acknowledged probes (RFC
// 8899), not on messages from routers. It starts with kBase, which nearly all paths take, and tries
// longer sizes in order. Three probes without an answer end the search for ten minutes. The size in
// use is also probed continuously. After three unanswered probes in a row, while shorter datagrams
// are answered, the path counts as a black hole for that size. The next shorter size is then used,
// or none below kBase.
//
// The caller sends a datagram of probe() bytes once a second or after an answer, and calls
// answered(). One object per peer.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "longhaul/core/types.h"

namespace longhaul::net {

class DatagramPath {
 public:
  // Bytes of UDP payload. 1,228 is a sealed frame of 1,200; the other sizes fill IP packets of
  // 1,400, 1,500 and 9,000 bytes, with an IPv6 and an IPv4 header.
  static constexpr std::array<std::uint32_t, 6> kSizes = {1228, 1372, 1452, 1472, 8952, 8972};
  static constexpr std::uint32_t kBase = kSizes.front(), kLongest = kSizes.back();
  static constexpr int kTries = 3;
  static constexpr Time kSearchAgain = std::chrono::minutes(10);

  // Returns the largest size that the peer receives; 0 if kBase does not arrive either.
  std::uint32_t size() const { return level_ < 0 ? 0 : kSizes[std::size_t(level_)]; }

  // Returns true if longer sizes are tried: the next probe may follow an answer at once.
  bool may_search(Time now) const { return level_ + 1 < int(kSizes.size()) && now >= search_at_; }
  // Returns the bytes of the next probe. The previous probe counts as lost if it was not answered
  // and `is_heard` is true: the peer has answered shorter datagrams since. Otherwise the loss
  // proves nothing.
  std::uint32_t probe(Time now, bool is_heard) {
    if (awaited_ && is_heard) missed(now);
    searches_ = may_search(now) && (level_ < 0 || !searches_);  // alternates with the size in use
    awaited_ = std::max(0, searches_ ? level_ + 1 : level_);
    return kSizes[std::size_t(*awaited_)];
  }
  // Called when the peer has received the last probe.
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
    // Without any size that arrives, the search continues.
    search_at_ = level_ < 0 ? now : now + kSearchAgain;
  }

  int level_ = 0;                // index in kSizes, or -1
  std::array<int, 2> missed_{};  // unanswered probes: of the size in use, and of longer ones
  bool searches_ = false;
  std::optional<int> awaited_;  // level of the last probe, until it is answered
  Time search_at_{0};
};

}  // namespace longhaul::net
