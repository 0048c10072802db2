#pragma once
// The class of each worker's update, from the arrival times of its earlier updates. Class 0: the
// round waits for it; 1: its group is not the slowest; 2: surplus.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::grouping {

struct Need {                 // need of a group
  std::vector<Rank> members;  // live members, ascending
  std::uint64_t quota = 1;
  bool met = false;
};

class Urgencies {
 public:
  static constexpr double kSmoothing = 0.3;  // weight of a new time
  static constexpr double kSlowest = 0.9;    // share of the slowest group's time: class 0 from here
  static constexpr double kPatience = 1.5;   // multiple of a worker's time: then another is needed

  // Called when the worker receives the model.
  void given(Rank rank, Time now) { given_[rank] = now; }

  // Called when the worker's update arrives.
  void came(Rank rank, Time now) {
    const auto since = given_.find(rank);
    if (since == given_.end()) return;
    const double took = seconds(now - since->second);
    const auto [known, is_new] = times_.try_emplace(rank, took);
    if (!is_new) known->second += kSmoothing * (took - known->second);
    given_.erase(since);
  }

  void lose(Rank rank) {
    given_.erase(rank);
    times_.erase(rank);
  }

  // Returns the class of each worker. A group needs its `quota` members of least T_i, except late
  // ones that can be replaced, and no member once the quota is met. All classes are 0 while the
  // time of any worker is unknown.
  std::map<Rank, std::uint8_t> classes(const std::vector<Need>& needs, Time now) const {
    std::map<Rank, std::uint8_t> classes;
    bool known = true;
    for (const Need& need : needs)
      for (Rank rank : need.members) {
        classes[rank] = 0;
        known &= times_.contains(rank);
      }
    if (!known) return classes;
    std::vector<std::pair<double, std::vector<Rank>>> groups;  // E_g, and the needed workers
    double slowest = 0;
    for (const Need& need : needs) {
      groups.emplace_back(0, needed(need, now));
      for (Rank rank : groups.back().second)
        groups.back().first = std::max(groups.back().first, times_.at(rank));
      slowest = std::max(slowest, groups.back().first);
    }
    for (auto& [rank, of] : classes) of = 2;
    for (const auto& [time, ranks] : groups)
      for (Rank rank : ranks) classes[rank] = time >= kSlowest * slowest ? 0 : 1;
    return classes;
  }

  // Returns the next time at which one of the members will be late.
  std::optional<Time> next_late(const std::vector<Need>& needs, Time now) const {
    std::optional<Time> next;
    for (const Need& need : needs)
      for (Rank rank : need.members)
        if (const auto late = late_at(rank); !need.met && late && *late > now)
          next = next ? std::min(*next, *late) : late;
    return next;
  }

  void state(Archive& ar) { ar(given_, times_); }

 private:
  std::optional<Time> late_at(Rank rank) const {
    const auto since = given_.find(rank);
    const auto time = times_.find(rank);
    if (since == given_.end() || time == times_.end()) return std::nullopt;
    return since->second + from_seconds(kPatience * time->second);
  }

  std::vector<Rank> needed(const Need& need, Time now) const {
    if (need.met) return {};
    std::vector<std::tuple<bool, double, Rank>> order;
    for (Rank rank : need.members) {
      const auto late = late_at(rank);
      order.emplace_back(late && *late <= now, times_.at(rank), rank);
    }
    std::ranges::sort(order);
    std::vector<Rank> ranks;
    for (const auto& [late, time, rank] : order)
      if (ranks.size() < need.quota) ranks.push_back(rank);
    return ranks;
  }

  std::map<Rank, Time> given_;    // start of the work on the current model
  std::map<Rank, double> times_;  // T_i, s
};

}  // namespace longhaul::sync::grouping
