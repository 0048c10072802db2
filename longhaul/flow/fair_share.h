#pragma once
// Weighted max-min fair rates of flows over links, by progressive filling: the rates of all flows
// rise together, in proportion to their weights. When a link is full, its flows keep their rates
// and the others continue. (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2.)
//
// Flows of a higher priority are filled first; a lower one gets what they leave. A flow's own cap
// ends its rise as a full link would.
//
// The rates are a function of the set of flows. The order of flows or links changes no bit of a
// flow's rate, nor do flows that share no link with it, directly or through others. To ensure this,
// weights are whole numbers, so that their sums are exact, and everything that is full at one level
// is frozen at once.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/flow/rate.h"

namespace longhaul::flow {

struct FairFlow {
  std::uint32_t first = 0;  // range in the list of crossings, each link once
  std::uint32_t links = 0;
  std::uint32_t weight = 1;  // > 0
  std::uint8_t priority = 0;
  double cap = kUnlimited;  // limit of its rate; >= 0
};

// A solver that holds only reusable scratch memory.
class FairShare {
  // Share of a capacity: a smaller rest of a full link is due to rounding.
  static constexpr double kNothing = 1e-9;

  static double level_of(double earlier, double left, std::uint64_t rising) {
    return std::max(earlier, left / double(rising));  // rounding must not let a level sink
  }

 public:
  // Returns the rate of each flow, in the units of the capacities (>= 0, finite). A flow without a
  // limit has kUnlimited. Valid until the next call.
  const std::vector<double>& solve(std::span<const double> capacities,
                                   std::span<const FairFlow> flows,
                                   std::span<const std::uint32_t> crossings) {
    crossings_ = crossings;
    rates_.assign(flows.size(), -1);
    links_.assign(capacities.size(), {});
    for (std::size_t i = 0; i < links_.size(); ++i) links_[i].left = capacities[i];
    order_.resize(flows.size());
    for (std::uint32_t i = 0; i < order_.size(); ++i) order_[i] = i;
    const auto priority = [&](std::uint32_t i) { return flows[i].priority; };
    // Usually all have one priority.
    if (!std::ranges::is_sorted(order_, std::greater{}, priority))
      std::ranges::stable_sort(order_, std::greater{}, priority);
    for (std::size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
      while (end < order_.size() && priority(order_[end]) == priority(order_[begin])) ++end;
      fill(flows, std::span(order_).subspan(begin, end - begin));
      for (const std::uint32_t i : used_) {
        Link& link = links_[i];
        if (link.full || link.left < kNothing * capacities[i]) link.left = 0;
        link.count = 0;
        link.rising = 0;
        link.full = false;
      }
    }
    return rates_;
  }

 private:
  struct Link {
    double left = 0;           // unused capacity
    std::uint64_t rising = 0;  // weights of its flows whose rates still rise
    std::uint64_t frozen = 0;  // weights that stop at the current level
    std::uint32_t begin = 0;   // flows in members_, only those of one priority
    std::uint32_t count = 0;
    bool full = false;
  };
  using Level = std::pair<double, std::uint32_t>;  // (level, link or flow with a cap)

  void fill(std::span<const FairFlow> flows, std::span<const std::uint32_t> chosen) {
    gather(flows, chosen);
    heap_.clear();
    for (const std::uint32_t l : used_)
      heap_.emplace_back(links_[l].left / double(links_[l].rising), l);
    std::ranges::make_heap(heap_, std::greater{});
    caps_.clear();
    for (const std::uint32_t i : chosen)
      if (flows[i].cap < kUnlimited) caps_.emplace_back(flows[i].cap / flows[i].weight, i);
    std::ranges::make_heap(caps_, std::greater{});

    for (;;) {
      const double level = next_level();
      if (level == kUnlimited) break;
      const auto stop = [&](std::uint32_t i) {
        freeze(flows[i], level * double(flows[i].weight), rates_[i]);
      };
      while (next_level() == level && !heap_.empty() && heap_.front().first == level) {
        const std::uint32_t l = heap_.front().second;
        std::ranges::pop_heap(heap_, std::greater{});
        heap_.pop_back();
        links_[l].full = true;
        for (std::uint32_t i = 0; i < links_[l].count; ++i) stop(members_[links_[l].begin + i]);
      }
      while (!caps_.empty() && caps_.front().first == level) {
        stop(caps_.front().second);
        std::ranges::pop_heap(caps_, std::greater{});
        caps_.pop_back();
      }
      settle(level);
    }
    for (const std::uint32_t i : chosen)
      if (rates_[i] < 0) rates_[i] = kUnlimited;
  }

  // Lists the flows of each link.
  void gather(std::span<const FairFlow> flows, std::span<const std::uint32_t> chosen) {
    used_.clear();
    for (const std::uint32_t i : chosen) {
      LH_CHECK(flows[i].weight > 0);
      for (const std::uint32_t l : links_of(flows[i])) {
        if (links_[l].count++ == 0) used_.push_back(l);
        links_[l].rising += flows[i].weight;
      }
    }
    std::uint32_t end = 0;
    for (const std::uint32_t l : used_) {
      links_[l].begin = end;
      end += links_[l].count;
      links_[l].count = 0;
    }
    members_.resize(end);
    for (const std::uint32_t i : chosen)
      for (const std::uint32_t l : links_of(flows[i])) {
        Link& link = links_[l];
        members_[link.begin + link.count++] = i;
      }
  }

  // Replaces the top of the heap; usually the new level does not sink far.
  void sink(Level level) {
    std::size_t hole = 0;
    for (std::size_t child = 1; child < heap_.size(); child = 2 * hole + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (level < heap_[child]) break;
      heap_[hole] = heap_[child];
      hole = child;
    }
    heap_[hole] = level;
  }

  // Returns the level at which a link or a cap is reached next. Levels of links only rise, so in a
  // heap of older levels only the top must be corrected.
  double next_level() {
    while (!heap_.empty()) {
      const auto [level, l] = heap_.front();
      const Link& link = links_[l];
      if (link.rising > 0) {
        const double now = level_of(level, link.left, link.rising);
        if (now == level) break;
        sink({now, l});
      } else {
        std::ranges::pop_heap(heap_, std::greater{});
        heap_.pop_back();
      }
    }
    const double cap = caps_.empty() ? kUnlimited : caps_.front().first;
    return heap_.empty() ? cap : std::min(cap, heap_.front().first);
  }

  void freeze(const FairFlow& flow, double rate, double& into) {
    if (into >= 0) return;  // stopped by another link
    into = std::min(rate, flow.cap);
    for (const std::uint32_t l : links_of(flow)) {
      if (links_[l].frozen == 0) touched_.push_back(l);
      links_[l].frozen += flow.weight;
    }
  }

  void settle(double level) {
    for (const std::uint32_t l : touched_) {
      Link& link = links_[l];
      link.left = std::max(0.0, link.left - level * double(link.frozen));
      link.rising -= link.frozen;
      link.frozen = 0;
    }
    touched_.clear();
  }

  std::span<const std::uint32_t> links_of(const FairFlow& flow) const {
    return crossings_.subspan(flow.first, flow.links);
  }

  std::span<const std::uint32_t> crossings_;
  std::vector<double> rates_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> order_;    // flows by priority
  std::vector<std::uint32_t> used_;     // links of the current priority
  std::vector<std::uint32_t> members_;  // flows, link by link
  std::vector<std::uint32_t> touched_;  // links with flows that stop at the current level
  std::vector<Level> heap_;             // by link, the level at which it is full, or an earlier one
  std::vector<Level> caps_;             // heap of the flows' caps
};

}  // namespace longhaul::flow
