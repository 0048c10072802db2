#pragma once
// All nodes in one complete binary tree. docs/overlay/binary.md
#include <numeric>

#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

// `order`: all places, the root's first. Below the i-th stand the (2i+1)-th and the (2i+2)-th.
inline Tree binary_tree(const std::vector<std::uint32_t>& order) {
  Tree tree{.root = order.front(), .reduce_to = order, .spread_from = {}};
  for (std::size_t i = 1; i < order.size(); ++i) tree.reduce_to[order[i]] = order[(i - 1) / 2];
  tree.reduce_to[tree.root] = tree.root;
  tree.spread_from = tree.reduce_to;
  return tree;
}

class Binary final : public ServedTopology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::string order = "id";
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(phases,
                     .doc =
                         "streamed: a piece goes on when it is mixed, or its mean is there; "
                         "sequential: when the whole vector is",
                     .choices = {"streamed", "sequential"});
      LONGHAUL_FIELD(
          order,
          .doc =
              "how workers fill the tree below the server: id, by rank; seeded, as drawn "
              "from the job's seed",
          .choices = {"id", "seeded"});
    }
  };

  // Drawn once, from what all nodes draw alike, so that a loss moves nobody but those behind the
  // gap.
  Binary(const Config& config, const OverlayParts& parts, const Place& place)
      : ServedTopology(parts.server), streamed_(config.phases == "streamed"), order_(place.size()) {
    std::iota(order_.begin(), order_.end(), Rank{0});
    if (config.order == "seeded") Random(place.seed, {Purpose::overlay}).shuffle(std::span(order_));
  }

  std::optional<Forest> forest(const Partition& grid, const GroupMembers& team) const override {
    std::vector<std::uint32_t> order = {team.place_of(team.server.value()).value()};
    for (const Rank rank : order_)
      if (const auto place = team.place_of(rank); place && *place != order.front())
        order.push_back(*place);
    return Forest{{binary_tree(order)}, std::vector<std::uint32_t>(grid.pieces(), 0)};
  }

  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, streamed_);
  }

 private:
  const bool streamed_;
  std::vector<Rank> order_;  // of all nodes of the job; who is lost is left out
};

}  // namespace longhaul::overlay
