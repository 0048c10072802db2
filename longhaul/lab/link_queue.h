#pragma once
// One link of the emulated WAN: a rate, strict priority between classes of service, and within a
// class a fair share for each flow (deficit round robin: Shreedhar and Varghese, "Efficient fair
// queuing using deficit round robin", SIGCOMM 1995), so that flows come to the max-min shares that
// the simulator gives them, whatever their congestion control makes of a common queue. A packet
// under way is not interrupted. Each flow has a queue of its own, with tail drop.
//
// Times are kept to a fraction of a nanosecond from packet to packet, so that a link that has
// something to send is exact over any time.
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "longhaul/base/check.h"
#include "longhaul/core/types.h"
#include "longhaul/flow/wan.h"

namespace longhaul::lab {

inline constexpr unsigned kClasses = 8;  // of service; 7 goes first

class LinkQueue {
 public:
  struct Item {
    std::uint32_t slot = 0;  // what it is, to the caller
    std::uint32_t bytes = 0;
  };
  explicit LinkQueue(flow::Rate rate) : rate_(rate) { LH_CHECK(!rate || *rate > 0); }

  const flow::Rate& rate() const { return rate_; }  // bytes per second
  bool busy() const { return busy_; }
  bool empty() const { return waiting_ == 0 && !busy_; }

  // False: the flow's queue would hold more than `limit` bytes; the item is not taken.
  bool push(unsigned service_class, std::uint64_t flow, Item, std::uint64_t limit);
  // When not busy: takes the next item, if there is one, and says when it will be through.
  std::optional<Time> start(Time now);
  // The item that is through.
  Item finish();
  // The rate from now on; of an item under way, when the rest of it will be through.
  std::optional<Time> set_rate(flow::Rate, Time now);

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
  Item next();
  Time through(double bytes, Time now);

  flow::Rate rate_;
  std::map<unsigned, Class, std::greater<>> classes_;
  std::uint64_t waiting_ = 0;  // items, the one under way apart
  Item under_way_;
  bool busy_ = false;
  Time ends_{0};
  double fraction_ = 0;  // of a nanosecond: ends_ is so much too early
};

}  // namespace longhaul::lab
