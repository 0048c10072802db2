#pragma once
// All in a circle: reduce-scatter, then all-gather. docs/overlay/ring.md
#include "longhaul/flow/circle.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/overlay/ring_attempt.h"

namespace longhaul::overlay {

struct RingConfig {
  std::string phases = "streamed";
  std::string order = "id";
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "phases",
                .doc = "streamed: a piece is passed on when it comes; sequential: when its whole "
                       "segment is here",
                .choices = {"streamed", "sequential"}},
          self.phases);
    visit(Field{.name = "order",
                .doc = "in which order workers stand: id, by rank; bandwidth, so that the slowest "
                       "hop is as fast as can be, by the rates of [wan]",
                .choices = {"id", "bandwidth"}},
          self.order);
  }
};

class Ring final : public Topology {
 public:
  // `rate`: what is believed, the same at all nodes; empty: nothing is, and the order is that of
  // the ranks. The order is of all workers of the job: whoever is lost is left out.
  Ring(const RingConfig& config, const RateBelief& rate, const Place& place)
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

  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, workers, chunk};
  }
  std::optional<RoutePlan> routes(const Partition&, const GroupMembers&) const override;
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<RingAttempt>(spec, streamed_, circle(*spec.team));
  }

  // All members, in the order in which they stand.
  std::vector<Rank> circle(const GroupMembers& team) const {
    if (order_.empty()) return team.members;
    std::vector<Rank> members;
    for (const Rank rank : order_)
      if (team.index_of(rank)) members.push_back(rank);
    return members;
  }

 private:
  const bool streamed_;
  std::vector<Rank> order_;  // empty: by rank
};

}  // namespace longhaul::overlay
