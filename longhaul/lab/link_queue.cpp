#include "longhaul/lab/link_queue.h"

#include <cmath>
#include <utility>

namespace longhaul::lab {

bool LinkQueue::push(unsigned service_class, std::uint64_t flow, Item item, std::uint64_t limit) {
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

// Of the highest class that waits, the flow whose turn it is.
LinkQueue::Item LinkQueue::next() {
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
    if (!goes || flow.items.empty()) {  // the turn is over
      if (flow.items.empty())
        flow.credit = 0;  // it saves nothing up
      else
        queues.turns.push_back(queues.turns.front());
      queues.turns.pop_front();
      queues.credited = false;
    }
    if (goes) return item;
  }
}

Time LinkQueue::through(double bytes, Time now) {
  if (!rate_) {
    fraction_ = 0;
    return now;
  }
  const double exact = bytes * 1e9 / *rate_ + fraction_;
  const double whole = std::floor(exact);
  fraction_ = exact - whole;
  return now + Time(std::int64_t(whole));
}

std::optional<Time> LinkQueue::start(Time now) {
  LH_CHECK(!busy_);
  if (waiting_ == 0) return std::nullopt;
  if (now != ends_) fraction_ = 0;  // it has been idle
  under_way_ = next();
  busy_ = true;
  return ends_ = through(under_way_.bytes, now);
}

LinkQueue::Item LinkQueue::finish() {
  LH_CHECK(busy_);
  busy_ = false;
  return under_way_;
}

std::optional<Time> LinkQueue::set_rate(flow::Rate rate, Time now) {
  LH_CHECK(!rate || *rate > 0);
  const double left =
      busy_ && rate_ ? (double((ends_ - now).count()) + fraction_) * 1e-9 * *rate_ : 0;
  rate_ = rate;
  if (!busy_) return std::nullopt;
  fraction_ = 0;
  return ends_ = through(left, now);
}

}  // namespace longhaul::lab
