// An example of a new overlay: it is a value, the trees of each piece. Half of the vector goes
// round a circle, and half the other way. forest plans trees that are at least as good for the
// rates of [wan], so this overlay has no name in a job file.
//
// Invariants: and R-2.4 (agreed_test.cpp).
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/overlay/fixed_plans.h"
#include "longhaul/overlay/testing/exchange.h"

namespace longhaul::overlay {
namespace {

using testing::Exchange;
using testing::ExchangeConfig;

class TwoRings final : public Topology {
 public:
  // Returns a shard for each worker and direction.
  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, 2 * workers, chunk};
  }

  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    const auto members = std::uint32_t(team.members.size());
    std::vector<std::uint32_t> circle(members);
    std::iota(circle.begin(), circle.end(), 0u);
    ReducePlan plan;
    for (std::uint32_t owner = 0; owner < members; ++owner) {
      const Tree tree = circle_tree(circle, owner);
      plan.trees.push_back(tree);
      plan.trees.push_back({owner, tree.spread_from, tree.reduce_to});  // the other way
    }
    for (std::size_t piece = 0; piece < grid.pieces(); ++piece)
      plan.tree_of.push_back(grid.shard_of(piece) % (2 * members));
    return plan;
  }
};

ExchangeConfig two_rings(std::uint32_t workers, std::uint64_t length) {
  return {.kind = "two_rings", .workers = workers, .length = length, .topology = [] {
            return std::make_unique<TwoRings>();
          }};
}

TEST(TwoRings, AllHoldTheMeanOfAll) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 5u})
    for (const std::uint64_t length : {1u, 4u, 2055u})
      EXPECT_NO_THROW(Exchange::agreed(two_rings(workers, length)));
}

TEST(TwoRings, R2_1_ACrashAtAnyEvent) {
  bool ended = false;
  for (std::uint64_t at = 0; !ended; at += 7) {
    Exchange exchange(two_rings(4, 40));
    for (std::uint64_t event = 0; event < at && !ended; ++event) ended = !exchange.step();
    if (!ended) exchange.net().crash(1);
    exchange.run();
    ASSERT_EQ(exchange.disagreement(), "") << "crash at " << at;
  }
}

// A ring sends all of 2 (n - 1) / n vectors to one neighbour.
TEST(TwoRings, R2_4_SendsAsMuchToEachNeighbour) {
  const std::uint64_t length = 4 * 1024;
  Exchange exchange(two_rings(4, length));
  const auto planned = exchange.at(0).overlay().planned(length);
  ASSERT_TRUE(planned);
  EXPECT_EQ(planned->loads.size(), 8u);
  for (const auto& [way, load] : planned->loads) {
    EXPECT_EQ((way.first + way.second) % 2, 1u) << "neighbours in a circle of four";
    EXPECT_EQ(load.reduce + load.spread, 4 * length * 3 / 4);
  }
}

}  // namespace
}  // namespace longhaul::overlay
