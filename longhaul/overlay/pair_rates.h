#pragma once
// What a node has learned of its links from the vectors that it sends and gets: bytes a second to
// each peer while something waited for it, and what its own port carried at most, each way. A link
// that idled says nothing of what it can do, so only bytes are counted that followed others without
// a pause. What a pair reached is what it can do at least.
//
// Owned by the Replanner of a node. It asks nobody: all that it knows are sizes and times of what
// went by. Memory: a few numbers for each peer.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::forest {

// The most that a port carried over a run of messages.
class PortMeter {
  static constexpr std::uint32_t kWindow = 64;  // messages over which a port's rate is taken

 public:
  void add(std::uint64_t bytes, Time now) {
    if (!since_) {
      since_ = now;  // when this one began is not known
      return;
    }
    bytes_ += bytes;
    if (++messages_ < kWindow || now <= *since_) return;
    most_ = std::max(most_, double(bytes_) / seconds(now - *since_));
    since_ = now;
    bytes_ = messages_ = 0;
  }

  // bytes/s at most since it was closed last; 0: too few messages to say
  double close() {
    const double most = most_;
    *this = {};
    return most;
  }

  void state(auto& ar) { ar(since_, bytes_, messages_, most_); }

 private:
  std::optional<Time> since_;  // when the run began
  std::uint64_t bytes_ = 0;
  std::uint32_t messages_ = 0;
  double most_ = 0;
};

class PairRates {
  static constexpr std::uint32_t kLeast = 4;  // messages that a pair's figure takes
  static constexpr double kFull = 0.9;        // of the most that a port carried
  static constexpr double kTop = 0.9;         // of the quickest peer's rate
  static constexpr double kReluctance =
      0.05;  // weight of what is lower and need not be the link's fault
  static constexpr double kForgetting = 0.01;  // of what a port carried once

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
  void on_sent(Rank to, std::uint64_t bytes, Time waited, Time now) {
    const auto [at, fresh] = runs_.try_emplace(to);
    Run& run = at->second;
    if (fresh || now - waited > run.last) {  // nothing waited before it
      run.begun = run.last = now;
      return;
    }
    // What goes at the very time at which a run begins fills the host's room, not the link.
    if (now > run.begun) {
      run.busy += now - run.last;
      run.bytes += bytes;
      ++run.messages;
      up_meter_.add(bytes, now);
    }
    run.last = now;
  }

  void on_received(std::uint64_t bytes, Time now) { down_meter_.add(bytes, now); }

  // A round is over: what was measured in it is learned. `sharing`: nodes that send and get through
  // the same port, this one counted.
  // Several that share a full port get the same of it, and each could have more alone: so what is
  // lower than before says nothing of a pair that is among the quickest of a full port.
  void close(std::uint32_t sharing = 1) {
    double top = 0;
    std::map<Rank, double> measured;
    for (auto& [to, run] : runs_) {
      if (run.messages >= kLeast && run.busy > Time{0}) {
        measured[to] = double(run.bytes) / seconds(run.busy);
        top = std::max(top, measured[to]);
      }
      run.busy = Time{0};
      run.bytes = run.messages = 0;
    }
    const double up = up_meter_.close(), down = down_meter_.close();
    const bool full = up > 0 && up >= kFull * up_ / sharing;
    for (auto& [to, known] : pairs_) ++known.age;
    for (const auto& [to, rate] : measured) learn(to, rate, full && rate >= kTop * top);
    const auto keep = [](double& most, double now) {
      if (now > 0) most = std::max(now, most + kForgetting * (now - most));
    };
    keep(up_, up);
    keep(down_, down);
  }

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
  void learn(Rank to, double rate, bool crowded) {
    const auto [at, fresh] = pairs_.try_emplace(to, Known{rate, 0});
    Known& known = at->second;
    known.age = 0;
    if (fresh) return;
    const bool step = std::fabs(rate - known.rate) > step_ * known.rate;
    const double weight = rate < known.rate && crowded ? kReluctance : step ? 1 : ema_;
    known.rate += weight * (rate - known.rate);
  }

  double ema_, step_;
  std::map<Rank, Run> runs_;
  std::map<Rank, Known> pairs_;
  PortMeter up_meter_, down_meter_;
  double up_ = 0, down_ = 0;
};

}  // namespace longhaul::overlay::forest
