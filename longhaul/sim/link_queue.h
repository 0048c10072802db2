#pragma once
// One link of the emulated WAN: a rate, strict priority between classes of service, and a fair
// share for each flow of a class. Flows get the max-min shares of the simulator with any congestion
// control (deficit round robin: Shreedhar and Varghese, "Efficient fair queuing using deficit round
// robin", SIGCOMM 1995). A packet in transmission is not interrupted.
// Each flow has its own queue, with tail drop.
//
// Times carry fractions of a nanosecond from packet to packet, so that a busy link is exact over
// any time.
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "longhaul/base/check.h"
#include "longhaul/core/types.h"
#include "longhaul/flow/wan.h"

namespace longhaul::sim {

inline constexpr unsigned kClasses = 9;  // of service; 8 goes first

// The class that an IPv4 header's second byte (DSCP and ECN) asks for: lower effort (DSCP 1, RFC
// 8622) is 0, behind all else; then by class selectors (RFC 2474): unmarked is 1, CS7 is 8.
constexpr unsigned service_class_of(std::uint8_t marks) {
  const unsigned dscp = marks >> 2;
  return dscp == 1 ? 0 : 1 + dscp / 8;
}

class LinkQueue {
 public:
  struct Item {
    std::uint32_t slot = 0;  // the caller's identifier
    std::uint32_t bytes = 0;
  };
  explicit LinkQueue(flow::Rate rate) : rate_(rate) { LH_CHECK(!rate || *rate > 0); }

  const flow::Rate& rate() const { return rate_; }  // bytes per second
  bool busy() const { return busy_; }
  bool empty() const { return waiting_ == 0 && !busy_; }

  // False: the flow's queue would exceed `limit` bytes; the item is dropped.
  bool push(unsigned service_class, std::uint64_t flow, Item item, std::uint64_t limit) {
    LH_CHECK(service_class < kClasses);
    Class& queues = classes_[service_class];
    Flow& queue = queues.flows[flow];
    if (queue.bytes + item.bytes > limit) return false;
    if (queue.items.empty()) queues.turns.push_back(flow);
    queue.items.push_back(item);
    queue.bytes += item.bytes;
    ++waiting_;
    return true;
  }

  // When not busy: starts to send the next item, if any; returns when it will be sent.
  std::optional<Time> start(Time now) {
    LH_CHECK(!busy_);
    if (waiting_ == 0) return std::nullopt;
    if (now != ends_) fraction_ = 0;  // it has been idle
    under_way_ = next();
    busy_ = true;
    return ends_ = through(under_way_.bytes, now);
  }

  // Returns the item that has been sent.
  Item finish() {
    LH_CHECK(busy_);
    busy_ = false;
    return under_way_;
  }

  // Sets the rate from now on; returns when the current item, if any, will be sent.
  std::optional<Time> set_rate(flow::Rate rate, Time now) {
    LH_CHECK(!rate || *rate > 0);
    const double left =
        busy_ && rate_ ? (double((ends_ - now).count()) + fraction_) * 1e-9 * *rate_ : 0;
    rate_ = rate;
    if (!busy_) return std::nullopt;
    fraction_ = 0;
    return ends_ = through(left, now);
  }

 private:
  static constexpr std::int64_t kQuantum = 1500;  // bytes of a flow's turn
  struct Flow {
    std::deque<Item> items;
    std::uint64_t bytes = 0;
    std::int64_t credit = 0;
  };
  struct Class {
    std::map<std::uint64_t, Flow> flows;  // those that have ever sent
    std::deque<std::uint64_t> turns;      // those that wait; the first is having its turn
    bool credited = false;                // the first, in this turn
  };
  // The flow whose turn it is in the highest class that waits.
  Item next() {
    auto at = classes_.begin();
    while (at->second.turns.empty()) ++at;
    Class& queues = at->second;
    for (;;) {
      Flow& flow = queues.flows.at(queues.turns.front());
      if (!std::exchange(queues.credited, true)) flow.credit += kQuantum;
      const Item item = flow.items.front();
      const bool goes = item.bytes <= flow.credit;
      if (goes) {
        flow.items.pop_front();
        flow.bytes -= item.bytes;
        flow.credit -= item.bytes;
        --waiting_;
      }
      if (!goes || flow.items.empty()) {  // the turn ends
        if (flow.items.empty())
          flow.credit = 0;  // an idle flow keeps no credit
        else
          queues.turns.push_back(queues.turns.front());
        queues.turns.pop_front();
        queues.credited = false;
      }
      if (goes) return item;
    }
  }

  Time through(double bytes, Time now) {
    if (!rate_) {
      fraction_ = 0;
      return now;
    }
    const double exact = bytes * 1e9 / *rate_ + fraction_;
    const double whole = std::floor(exact);
    fraction_ = exact - whole;
    return now + Time(std::int64_t(whole));
  }

  flow::Rate rate_;
  std::map<unsigned, Class, std::greater<>> classes_;
  std::uint64_t waiting_ = 0;  // items, without the current one
  Item under_way_;
  bool busy_ = false;
  Time ends_{0};
  double fraction_ = 0;  // nanoseconds by which ends_ is too early: below 1
};

}  // namespace longhaul::sim
