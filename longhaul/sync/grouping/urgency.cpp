#include "longhaul/sync/grouping/urgency.h"

#include <algorithm>

namespace longhaul::sync::grouping {

void Urgencies::given(Rank rank, Time now) { given_[rank] = now; }

void Urgencies::came(Rank rank, Time now) {
  const auto since = given_.find(rank);
  if (since == given_.end()) return;
  const double took = seconds(now - since->second);
  const auto [known, is_new] = times_.try_emplace(rank, took);
  if (!is_new) known->second += kSmoothing * (took - known->second);
  given_.erase(since);
}

void Urgencies::lose(Rank rank) {
  given_.erase(rank);
  times_.erase(rank);
}

std::optional<Time> Urgencies::late_at(Rank rank) const {
  const auto since = given_.find(rank);
  const auto time = times_.find(rank);
  if (since == given_.end() || time == times_.end()) return std::nullopt;
  return since->second + from_seconds(kPatience * time->second);
}

std::vector<Rank> Urgencies::needed(const Need& need, Time now) const {
  if (need.met) return {};
  std::vector<std::tuple<bool, double, Rank>> order;
  for (Rank rank : need.members) {
    const auto late = late_at(rank);
    order.emplace_back(late && *late <= now, times_.at(rank), rank);
  }
  std::sort(order.begin(), order.end());
  std::vector<Rank> ranks;
  for (const auto& [late, time, rank] : order)
    if (ranks.size() < need.quota) ranks.push_back(rank);
  return ranks;
}

std::map<Rank, std::uint8_t> Urgencies::classes(const std::vector<Need>& needs, Time now) const {
  std::map<Rank, std::uint8_t> classes;
  bool known = true;
  for (const Need& need : needs)
    for (Rank rank : need.members) {
      classes[rank] = 0;
      known &= times_.contains(rank);
    }
  if (!known) return classes;
  std::vector<std::pair<double, std::vector<Rank>>> groups;  // E_g, and who is needed
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

std::optional<Time> Urgencies::next_late(const std::vector<Need>& needs, Time now) const {
  std::optional<Time> next;
  for (const Need& need : needs)
    for (Rank rank : need.members)
      if (const auto late = late_at(rank); !need.met && late && *late > now)
        next = next ? std::min(*next, *late) : late;
  return next;
}

}  // namespace longhaul::sync::grouping
