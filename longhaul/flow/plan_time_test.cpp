#include "longhaul/flow/plan_time.h"

#include <gtest/gtest.h>

#include "longhaul/flow/testing/wans.h"

namespace longhaul::flow {
namespace {

TwoTrees star_at(std::uint32_t root, std::uint32_t sites, double share) {
  const std::vector<std::uint32_t> leaves(sites, root);
  return {root, leaves, leaves, share};
}

// One star of three sites: the root sends two vectors, over two connections that share its uplink.
TEST(PlanTime, AStarTakesTwoVectorsAtItsRoot) {
  Wan wan = testing::equal_sites(3, 100);
  wan.usual.delay_s = 0.5;
  const PlanTime time = time_of({star_at(0, 3, 1)}, wan, Capacities(wan), {1000, 10});
  EXPECT_DOUBLE_EQ(time.busy_s, 20);
  EXPECT_DOUBLE_EQ(time.fair_s, 20);
  EXPECT_DOUBLE_EQ(time.latency_s, 2 * (0.5 + 10 / 50.));
  EXPECT_DOUBLE_EQ(time.seconds(), 20 + 1.4);
}

// Of a vector, 0.9 goes over site 0 and 0.1 over site 1. Site 2 sends 900 to one and 100 to the
// other, which TCP takes for equals: at first half of its uplink is with the 100.
TEST(PlanTime, AnUnequalConnectionWaitsForItsShare) {
  const Wan wan = testing::equal_sites(3, 100);
  const PlanTime time =
      time_of({star_at(0, 3, 0.9), star_at(1, 3, 0.1)}, wan, Capacities(wan), {1000, 0});
  EXPECT_DOUBLE_EQ(time.busy_s, 19);  // site 0 sends 1.8 vectors of its own tree, 0.1 of the other
  EXPECT_DOUBLE_EQ(time.fair_s, 20);  // between sites 0 and 1 goes a whole vector at a rate of 50
  EXPECT_DOUBLE_EQ(time.seconds(), 19.5);
}

TEST(PlanTime, WhereNothingLimitsOnlyDelaysCount) {
  Wan wan;
  wan.sites.resize(2);
  wan.usual.delay_s = 0.1;
  const PlanTime time = time_of({star_at(0, 2, 1)}, wan, Capacities(wan), {1000, 10});
  EXPECT_EQ(time.busy_s, 0);
  EXPECT_EQ(time.fair_s, 0);
  EXPECT_DOUBLE_EQ(time.seconds(), 0.2);
}

}  // namespace
}  // namespace longhaul::flow
