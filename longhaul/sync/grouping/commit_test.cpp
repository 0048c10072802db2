#include "longhaul/sync/grouping/commit.h"

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::sync::grouping {
namespace {

// Updates of a group are all alike, one for each: what comes out are the groups' weights.
TEST(Commit, Invariant1_AGroupWeighsItsShareWhateverComesOfIt) {
  Random random(1, Stream{});
  for (int n = 0; n < 200; ++n) {
    std::vector<Group> groups(3);
    groups[0] = {{0, 1, 2, 3}, 0.5};
    groups[1] = {{4, 5}, 0.3};
    groups[2] = {{6}, 0.2};
    Pending pending;
    std::set<std::size_t> lacking{0, 1, 2};
    double left = 0;
    for (std::size_t g = 0; g < 3; ++g)
      for (Rank rank : groups[g].members)
        for (std::uint64_t version : {3u, 8u}) {
          if (random.uniform() < 0.6) continue;
          std::vector<float> values(3);
          values[g] = 1;
          pending[{rank, version}] = {random.uniform() + 0.1, values};
          if (lacking.erase(g) > 0) left += groups[g].share;
        }
    std::vector<double> sum(3, 7);
    EXPECT_EQ(weigh(groups, pending, sum), lacking);
    if (lacking.size() == 3) {
      EXPECT_EQ(sum, std::vector<double>(3, 7));
      continue;
    }
    for (std::size_t g = 0; g < 3; ++g)
      EXPECT_NEAR(sum[g], lacking.contains(g) ? 0 : groups[g].share / left, 1e-12);
    EXPECT_NEAR(sum[0] + sum[1] + sum[2], 1, 1e-12);
  }
}

TEST(Commit, SharesAreBySamplesOrAlike) {
  std::vector<Group> groups(2);
  groups[0].members = {0, 1};
  groups[1].members = {2};
  set_shares(groups, {{0, 10}, {1, 20}, {2, 10}}, true);
  EXPECT_EQ(groups[0].share, 0.75);
  set_shares(groups, {{0, 10}, {1, 20}, {2, 10}}, false);
  EXPECT_EQ(groups[0].share, 0.5);
}

}  // namespace
}  // namespace longhaul::sync::grouping
