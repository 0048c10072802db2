#pragma once
// A node's rates on its links, learned from the vectors that it sends and receives. The rate to a
// peer is in bytes/s while data waited for it; the rate of the own port, each way, is the most that
// it carried. An idle link says nothing about its capacity, so only bytes are counted that followed
// others without a pause. The rate of a pair is a lower bound of its capacity.
//
// Owned by a node's PlannedForest. No messages: the only inputs are sizes and times of traffic.
// Memory: a few numbers for each peer.
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
  static constexpr std::uint32_t kWindow = 64;  // messages per measurement of a port's rate

 public:
  void add(std::uint64_t bytes, Time now) {
    if (!since_) {
      since_ = now;  // the start of this one is unknown
      return;
    }
    bytes_ += bytes;
    if (++messages_ < kWindow || now <= *since_) return;
    most_ = std::max(most_, double(bytes_) / seconds(now - *since_));
    since_ = now;
    bytes_ = messages_ = 0;
  }

  // Returns the most bytes/s since the last close(); 0: too few messages to say.
  double close() {
    const double most = most_;
    *this = {};
    return most;
  }

  void state(auto& ar) { ar(since_, bytes_, messages_, most_); }

 private:
  std::optional<Time> since_;  // start of the run
  std::uint64_t bytes_ = 0;
  std::uint32_t messages_ = 0;
  double most_ = 0;
};

class PairRates {
  static constexpr std::uint32_t kLeast = 4;   // fewest messages for a pair's rate
  static constexpr double kFull = 0.9;         // share of the most that a port carried
  static constexpr double kTop = 0.9;          // share of the quickest peer's rate
  static constexpr double kReluctance = 0.05;  // weight of a lower rate on a full port
  static constexpr double kForgetting = 0.01;  // decay of a port's maximum per round

 public:
  struct Known {
    double rate = 0;        // bytes/s
    std::uint32_t age = 0;  // rounds since it was measured
    void state(auto& ar) { ar(rate, age); }
  };

  // `ema`: weight of a new figure, in (0, 1]. A figure that differs by more than the share `step`
  // is no noise: it replaces the old one.
  PairRates(double ema, double step) : ema_(ema), step_(step) {}

  // Called when the host has accepted a range of a vector, which had waited for `waited`.
  void on_sent(Rank to, std::uint64_t bytes, Time waited, Time now) {
    const auto [at, fresh] = runs_.try_emplace(to);
    Run& run = at->second;
    if (fresh || now - waited > run.last) {  // nothing waited before it
      run.begun = run.last = now;
      return;
    }
    // Bytes at the very start of a run fill the host's buffer, not the link.
    if (now > run.begun) {
      run.busy += now - run.last;
      run.bytes += bytes;
      ++run.messages;
      up_meter_.add(bytes, now);
    }
    run.last = now;
  }

  void on_received(std::uint64_t bytes, Time now) { down_meter_.add(bytes, now); }

  // Learns the rates of a round that has ended. `sharing`: nodes that send and receive through the
  // same port, this one included. Pairs that share a full port get equal parts of it, and each
  // could have more alone. So a lower rate says nothing about a pair that is among the quickest of
  // a full port.
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
    Time begun{0};  // time of the first, for which the host had room
    Time last{0};   // time of the newest
    Time busy{0};   // time in this round while others waited
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
