#pragma once
// Faults of a World as data.
#include <optional>

#include "longhaul/core/types.h"

namespace longhaul::sim {

inline constexpr Time kForever = Time::max();

struct Fault {
  enum class Kind : std::uint8_t {
    crash,  // the node stops for good; what has not left it is lost
    pause,  // the node takes no input until `until`; its step continues, its messages wait
    cut     // nothing passes between rank and peer until `until`; nothing is lost
  };
  Kind kind = Kind::crash;
  Rank rank = 0;
  Rank peer = 0;         // cut
  bool one_way = false;  // cut: only from rank to peer
  Time at{0};
  Time until = kForever;                       // pause, cut
  std::optional<std::uint64_t> at_event = {};  // crash: before the event of this number instead

  void state(auto& archive) { archive(kind, rank, peer, one_way, at, until, at_event); }
};

}  // namespace longhaul::sim
