#pragma once
// Faults of a World as data: given explicitly, or drawn from a seed.
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/rng.h"
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

// Cuts every pair of a node of `one` and a node of `other`.
std::vector<Fault> partition(std::span<const Rank> one, std::span<const Rank> other, Time at,
                             Time until);

struct RandomFaults {
  std::uint32_t ranks = 2;
  Time horizon{0};            // faults begin in [0, horizon)
  std::uint32_t crashes = 0;  // of different ranks
  std::uint32_t pauses = 0;   // each up to `longest`
  std::uint32_t cuts = 0;     // one way or both, each up to `longest`
  Time longest{0};
  std::vector<Rank> spared = {};  // never crashed
};
// A pure function of the seed.
std::vector<Fault> random_faults(std::uint64_t seed, const RandomFaults&);

}  // namespace longhaul::sim
