#include "longhaul/sim/testing/random_faults.h"

#include <gtest/gtest.h>

#include <set>

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;

TEST(Faults, RandomOnesAreWithinTheirBoundsAndRepeat) {
  const RandomFaults wanted{.ranks = 4,
                            .horizon = 1s,
                            .crashes = 9,
                            .pauses = 3,
                            .cuts = 5,
                            .longest = 300ms,
                            .spared = {2}};
  std::set<std::int64_t> moments;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<Fault> faults = random_faults(seed, wanted);
    const std::vector<Fault> again = random_faults(seed, wanted);
    ASSERT_EQ(faults.size(), 3u + 3 + 5) << "three can crash, one is spared";
    std::set<Rank> crashed;
    for (std::size_t i = 0; i < faults.size(); ++i) {
      const Fault& f = faults[i];
      EXPECT_EQ(f.at, again[i].at);
      EXPECT_TRUE(f.at >= 0s && f.at < 1s && f.rank < 4);
      moments.insert(f.at.count());
      if (f.kind == Fault::Kind::crash) {
        EXPECT_TRUE(crashed.insert(f.rank).second && f.rank != 2);
      } else {
        EXPECT_TRUE(f.until > f.at && f.until <= f.at + 300ms);
      }
      if (f.kind == Fault::Kind::cut) EXPECT_TRUE(f.peer < 4 && f.peer != f.rank);
    }
  }
  EXPECT_GT(moments.size(), 500u);
}

TEST(Faults, APartitionCutsEveryPairAcross) {
  const std::vector<Rank> one = {0, 3}, other = {1, 2, 4};
  const auto faults = partition(one, other, 1s, 2s);
  ASSERT_EQ(faults.size(), 6u);
  for (const Fault& f : faults) {
    EXPECT_TRUE(f.rank % 3 == 0 && f.peer % 3 != 0 && !f.one_way);
    EXPECT_EQ(f.until, 2s);
  }
}

}  // namespace
}  // namespace longhaul::sim
