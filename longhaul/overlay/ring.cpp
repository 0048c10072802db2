#include "longhaul/overlay/ring.h"

#include "longhaul/flow/circle.h"

namespace longhaul::overlay {

Ring::Ring(const RingConfig& config, const RateBelief& rate, const Place& place)
    : streamed_(config.phases == "streamed") {
  if (config.order == "id" || !rate) return;
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::worker)) workers.push_back(rank);
  const flow::Circle best = flow::best_circle(
      std::uint32_t(workers.size()),
      [&](std::uint32_t from, std::uint32_t to) { return rate(workers[from], workers[to]); });
  for (const std::uint32_t worker : best.order) order_.push_back(workers[worker]);
}

std::vector<Rank> Ring::circle(const GroupMembers& team) const {
  if (order_.empty()) return team.members;
  std::vector<Rank> members;
  for (const Rank rank : order_)
    if (team.index_of(rank)) members.push_back(rank);
  return members;
}

}  // namespace longhaul::overlay
