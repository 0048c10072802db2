#pragma once
// Overlays along trees that follow from the ranks alone: binary, rack, halving_doubling.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

// Returns one complete binary tree of all nodes. docs/overlay/binary.md
//
// `order`: all places, the root first. The children of order[i] are order[2i+1] and order[2i+2].
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
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(phases,
                   "streamed: a piece is forwarded once it is mixed, or its mean has arrived; "
                   "sequential: once the whole vector is",
                   .choices = {"streamed", "sequential"});
      LONGHAUL_KEY(order,
                   "how workers fill the tree below the server: id, by rank; seeded, as drawn from "
                   "the job's seed",
                   .choices = {"id", "seeded"});
    }
  };

  // Draws the order once from the job's seed, so it is the same on all nodes. A loss moves only the
  // nodes behind the gap.
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
  std::vector<Rank> order_;  // all nodes of the job; lost nodes are left out
};

// Returns groups of workers, each with an aggregator, below one server, the root.
// docs/overlay/rack.md
//
// `members`: their number; places ascend with rank. Group g holds the members from g n/G to (g+1)
// n/G, rounded down. Its lowest member aggregates.
inline Tree rack_tree(std::uint32_t members, std::uint32_t groups, std::uint32_t server) {
  if (groups == 0) groups = std::uint32_t(std::lround(std::sqrt(double(members))));
  groups = std::min(groups, members);
  Tree tree{.root = server, .reduce_to = {}, .spread_from = {}};
  for (std::uint64_t group = 0; group < groups; ++group) {
    const auto first = std::uint32_t(group * members / groups);
    const auto behind = std::uint32_t((group + 1) * members / groups);
    tree.reduce_to.push_back(server);
    tree.reduce_to.resize(behind, first);
  }
  tree.reduce_to.resize(std::max(members, server + 1), server);
  tree.reduce_to[server] = server;
  tree.spread_from = tree.reduce_to;
  return tree;
}

class Rack final : public ServedTopology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::uint32_t groups = 0;
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(phases,
                   "streamed: a piece is forwarded once it is mixed, or its mean has arrived; "
                   "sequential: once the whole vector is",
                   .choices = {"streamed", "sequential"});
      LONGHAUL_KEY(groups,
                   "groups of workers, in the order of their ranks; 0: the square root of their "
                   "number, rounded",
                   .max = 1 << 20);
    }
  };

  Rack(const Config& config, const OverlayParts& parts, const Place&)
      : ServedTopology(parts.server),
        streamed_(config.phases == "streamed"),
        groups_(config.groups) {}
  std::optional<Forest> forest(const Partition& grid, const GroupMembers& team) const override {
    const std::uint32_t server = team.place_of(team.server.value()).value();
    return Forest{{rack_tree(std::uint32_t(team.members.size()), groups_, server)},
                  std::vector<std::uint32_t>(grid.pieces(), 0)};
  }

  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, streamed_);
  }

 private:
  const bool streamed_;
  const std::uint32_t groups_;
};

// Recursive halving of sums, recursive doubling of means. docs/overlay/halving_doubling.md
// Returns the largest power of two that is not above n > 0: the number of members in the halving.
inline std::uint32_t core_of(std::uint32_t n) { return std::bit_floor(n); }

// Returns the tree of the segment of `owner`, one of the first core_of(members) places. In step k
// of the halving a node sends half of its remaining segment: the half that the node at a distance
// of core / 2^k needs. So a part approaches its owner by the highest bit in which their places
// differ. Members behind the core add their parts to those of the first members, which send them
// the mean.
inline Tree halving_tree(std::uint32_t members, std::uint32_t owner) {
  const std::uint32_t core = core_of(members);
  Tree tree{.root = owner, .reduce_to = {}, .spread_from = {}};
  for (std::uint32_t place = 0; place < members; ++place)
    tree.reduce_to.push_back(place < core ? place ^ std::bit_floor(place ^ owner) : place - core);
  tree.spread_from = tree.reduce_to;
  return tree;
}

class HalvingDoubling final : public Topology {
 public:
  struct Config {
    std::string phases = "streamed";
    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(phases,
                   "streamed: a piece is forwarded once it is mixed, or its mean has arrived; "
                   "sequential: once its whole segment is",
                   .choices = {"streamed", "sequential"});
    }
  };

  HalvingDoubling(const Config& config, const OverlayParts&, const Place&)
      : streamed_(config.phases == "streamed") {}
  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, core_of(workers), chunk};
  }
  // The cut is for the workers at the start of the job. In a smaller core each owner has several
  // shards.
  std::optional<Forest> forest(const Partition& grid, const GroupMembers& team) const override {
    const auto members = std::uint32_t(team.members.size());
    const std::uint64_t core = core_of(members);
    const std::uint64_t shards = core_of(team.shards());
    Forest forest;
    for (std::uint32_t owner = 0; owner < core; ++owner)
      forest.trees.push_back(halving_tree(members, owner));
    for (std::size_t piece = 0; piece < grid.pieces(); ++piece)
      forest.tree_of.push_back(std::uint32_t(grid.shard_of(piece) * core / shards));
    return forest;
  }

  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, streamed_);
  }

 private:
  const bool streamed_;
};

}  // namespace longhaul::overlay
