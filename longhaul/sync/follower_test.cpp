#include "longhaul/sync/follower.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"

namespace longhaul::sync {
namespace {

using Floats = std::vector<float>;

MissedRounds::Means means(Floats parameters, Floats extras) {
  MissedRounds::Means both;
  both[0] = {.values = std::move(parameters), .weight = 2, .counted = {0, 2}, .epoch = 3};
  both[1] = {.values = std::move(extras)};
  return both;
}

TEST(MissedRounds, GivesEachMeanOnceFromTheOldestRoundOn) {
  MissedRounds missed;
  missed.add(means({1, 2, 3}, {4}));
  missed.add(means({5, 6, 7}, {}));
  EXPECT_EQ(missed.size(), 2u);
  EXPECT_EQ(missed.bytes(), 7 * sizeof(float));
  const auto first = missed.take(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->values, (Floats{1, 2, 3}));
  EXPECT_EQ(first->weight, 2);
  EXPECT_EQ(first->epoch, 3u);
  EXPECT_TRUE(first->counted.has(2));
  EXPECT_FALSE(missed.take(0)) << "once";
  EXPECT_FALSE(missed.take(2)) << "there was none";
  EXPECT_EQ(missed.take(1)->values, Floats{4});
  missed.drop_oldest();
  EXPECT_EQ(missed.take(0)->values, (Floats{5, 6, 7}));
}

// To the bit: a zero with a sign is kept.
TEST(MissedRounds, KeepsSparseMeansByPosition) {
  Floats sparse(100);
  sparse[7] = 1.5f;
  sparse[8] = -0.0f;
  sparse[99] = -2;
  MissedRounds missed;
  missed.add(means(sparse, {}));
  EXPECT_EQ(missed.bytes(), 6 * sizeof(float));
  MissedRounds loaded;
  ASSERT_TRUE(longhaul::testing::load(loaded, longhaul::testing::saved(missed)));
  const Floats whole = loaded.take(0)->values;
  EXPECT_EQ(whole, sparse);
  EXPECT_TRUE(std::signbit(whole[8]));
}

}  // namespace
}  // namespace longhaul::sync
