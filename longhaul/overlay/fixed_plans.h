#pragma once
// Overlays whose plans follow from the ranks alone, or from an order of them: direct, hub, gather,
// ring, binary, rack, halving_doubling.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "longhaul/core/registry.h"
#include "longhaul/flow/circle.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/overlay/topology.h"

namespace longhaul::overlay {

inline ReducePlan one_tree(Tree tree, const Partition& grid, const ReducePlan::How& how) {
  return {{std::move(tree)}, std::vector<std::uint32_t>(grid.pieces(), 0), {}, how};
}

// All to all others: each worker owns a share of the vector. docs/overlay/direct.md
class Direct final : public Topology {
 public:
  struct Config {
    std::string phases = "streamed";
    static void fields(auto& self, auto&& visit) { visit_phases(self, visit); }
  };

  Direct(const Config& config, const OverlayParts&, const Place&)
      : how_{.sums = Sums::by_rank, .streamed = config.phases == "streamed"} {}
  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, workers, chunk};
  }
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    return stars(grid, team, how_);
  }

 private:
  const ReducePlan::How how_;
};

// All to one server and back: the parameter server. docs/overlay/hub.md
class Hub final : public ServedTopology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::string down_codec = "fp32";
    std::uint32_t window = 0;
    static void fields(auto& self, auto&& visit) {
      visit_phases(self, visit);
      LONGHAUL_KEY(down_codec, "how the server writes the mean: fp32, or same for the job's codec",
                   .choices = {"fp32", "same"});
      LONGHAUL_KEY(window,
                   "pieces that each worker sends before their mean arrives, which bounds the "
                   "server's memory; 0: no limit; needs phases = \"streamed\"",
                   .max = 1 << 20, .unit = "chunks");
    }
  };

  static Status check(const Config& config, const Settings& settings) {
    if (config.window == 0 || config.phases == "streamed") return Ok{};
    return bad_setting(settings, *settings.find("window"),
                       "0 with phases = \"sequential\", in which no mean comes before all parts "
                       "are sent; leave the key out");
  }

  Hub(const Config& config, const OverlayParts& parts, const Place&)
      : ServedTopology(parts.server),
        how_{.sums = Sums::by_rank,
             .streamed = config.phases == "streamed",
             .means = config.down_codec == "fp32" ? Coding::exact : Coding::down,
             .window = config.window} {}
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    return stars(grid, team, how_);
  }

 private:
  const ReducePlan::How how_;
};

// All parts to all members, and no mean is sent: every node adds the encoded vectors of all
// members. For codecs whose encoded vectors may not be added. docs/overlay/gather.md
class Gather final : public Topology {
 public:
  struct Config {
    static void fields(auto&, auto&&) {}
  };

  Gather(const Config&, const OverlayParts&, const Place&) {}
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    const ReducePlan all = stars(grid, team);
    return one_tree(all.trees[all.tree_of[0]], grid, {.sums = Sums::everywhere});
  }
};

// Returns the path from the place behind `owner` round the circle to it, and from it to the place
// before it.
inline Tree circle_tree(const std::vector<std::uint32_t>& circle, std::uint32_t owner) {
  Tree tree{.root = owner, .reduce_to = circle, .spread_from = circle};
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const std::uint32_t from = circle[i], to = circle[(i + 1) % circle.size()];
    tree.reduce_to[from] = from == owner ? owner : to;
    tree.spread_from[to] = to == owner ? owner : from;
  }
  return tree;
}

// `circle`: all members in its order.
inline ReducePlan circles(const Partition& grid, const GroupMembers& team,
                          const std::vector<Rank>& circle, bool streamed) {
  ReducePlan plan = stars(grid, team, {.sums = Sums::in_turn, .streamed = streamed});
  std::vector<std::uint32_t> places;
  for (const Rank rank : circle) places.push_back(*team.index_of(rank));
  for (Tree& tree : plan.trees) tree = circle_tree(places, tree.root);
  return plan;
}

// All members in a circle: reduce-scatter, then all-gather. docs/overlay/ring.md
class Ring final : public Topology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::string order = "id";
    static void fields(auto& self, auto&& visit) {
      visit_phases(self, visit);
      LONGHAUL_KEY(order,
                   "order of the workers: by rank; or so that the slowest hop is as fast as can "
                   "be, by the rates of [wan]",
                   .choices = {"id", "bandwidth"});
    }
  };

  Ring(const Config& config, const OverlayParts& parts, const Place& place)
      : Ring(config, config.order == "bandwidth" ? rates_of(parts.network, place) : RateBelief{},
             place) {}
  // `rate`: the assumed rates, the same at all nodes; empty: unknown, and the order is that of the
  // ranks. The order covers all workers of the job; lost workers are left out.
  Ring(const Config& config, const RateBelief& rate, const Place& place)
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
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    return circles(grid, team, circle(team), streamed_);
  }

  // Returns all members in the order of the circle.
  std::vector<Rank> circle(const GroupMembers& team) const {
    if (order_.empty()) return team.members;
    return those_of(order_, [&](Rank rank) { return team.index_of(rank); });
  }

 private:
  const bool streamed_;
  std::vector<Rank> order_;  // empty: by rank
};

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
      visit_phases(self, visit);
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

  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    std::vector<std::uint32_t> order = {team.place_of(team.server.value()).value()};
    for (const Rank rank : order_)
      if (const auto place = team.place_of(rank); place && *place != order.front())
        order.push_back(*place);
    return one_tree(binary_tree(order), grid, {.streamed = streamed_});
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
      visit_phases(self, visit);
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
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    const std::uint32_t server = team.place_of(team.server.value()).value();
    return one_tree(rack_tree(std::uint32_t(team.members.size()), groups_, server), grid,
                    {.streamed = streamed_});
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
    static void fields(auto& self, auto&& visit) { visit_phases(self, visit); }
  };

  HalvingDoubling(const Config& config, const OverlayParts&, const Place&)
      : streamed_(config.phases == "streamed") {}
  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, core_of(workers), chunk};
  }
  // The cut is for the workers at the start of the job. In a smaller core each owner has several
  // shards.
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    const auto members = std::uint32_t(team.members.size());
    const std::uint64_t core = core_of(members);
    const std::uint64_t shards = core_of(team.shards());
    ReducePlan plan{.trees = {}, .tree_of = {}, .how = {.streamed = streamed_}};
    for (std::uint32_t owner = 0; owner < core; ++owner)
      plan.trees.push_back(halving_tree(members, owner));
    for (std::size_t piece = 0; piece < grid.pieces(); ++piece)
      plan.tree_of.push_back(std::uint32_t(grid.shard_of(piece) * core / shards));
    return plan;
  }

 private:
  const bool streamed_;
};

}  // namespace longhaul::overlay
