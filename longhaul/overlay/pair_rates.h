#pragma once
// What a node has learned of its links from the vectors that it sends and gets: bytes a second to
// each peer while something waited for it, and what its own port carried at most, each way. A link
// that idled says nothing of what it can do, so only bytes are counted that followed others without
// a pause. What a pair reached is what it can do at least.
//
// Owned by the Replanner of a node. It asks nobody: all that it knows are sizes and times of what
// went by. Memory: a few numbers for each peer.
#include <cstdint>
#include <map>
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::forest {

// The most that a port carried over a run of messages.
class PortMeter {
 public:
  void add(std::uint64_t bytes, Time now);
  double close();  // bytes/s at most since it was closed last; 0: too few messages to say
  void state(auto& ar) { ar(since_, bytes_, messages_, most_); }

 private:
  std::optional<Time> since_;  // when the run began
  std::uint64_t bytes_ = 0;
  std::uint32_t messages_ = 0;
  double most_ = 0;
};

class PairRates {
 public:
  struct Known {
    double rate = 0;        // bytes/s
    std::uint32_t age = 0;  // rounds since it was measured
    void state(auto& ar) { ar(rate, age); }
  };

  // `ema`: weight of a new figure against what was known, in (0, 1]. One that differs by more than
  // the share `step` is no noise: it takes the other's place.
  PairRates(double ema, double step) : ema_(ema), step_(step) {}

  // A stretch of a vector was handed to the host; it had waited for `waited`.
  void on_sent(Rank to, std::uint64_t bytes, Time waited, Time now);
  void on_received(std::uint64_t bytes, Time now);
  // A round is over: what was measured in it is learned. `sharing`: nodes that send and get through
  // the same port, this one counted.
  void close(std::uint32_t sharing = 1);

  const std::map<Rank, Known>& pairs() const { return pairs_; }
  double up() const { return up_; }  // bytes/s; 0: not known
  double down() const { return down_; }
  void state(Archive& ar) { ar(runs_, pairs_, up_meter_, down_meter_, up_, down_); }

 private:
  struct Run {      // messages to one peer without a pause
    Time begun{0};  // when the first went, for which the host had room
    Time last{0};   // when the newest went
    Time busy{0};   // of this round, while others waited
    std::uint64_t bytes = 0;
    std::uint32_t messages = 0;
    void state(auto& ar) { ar(begun, last, busy, bytes, messages); }
  };
  void learn(Rank to, double rate, bool crowded);

  double ema_, step_;
  std::map<Rank, Run> runs_;
  std::map<Rank, Known> pairs_;
  PortMeter up_meter_, down_meter_;
  double up_ = 0, down_ = 0;
};

}  // namespace longhaul::overlay::forest
