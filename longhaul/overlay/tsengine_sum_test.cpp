#include "longhaul/overlay/tsengine_sum.h"

#include <gtest/gtest.h>

namespace longhaul::overlay::tsengine {
namespace {

using Ranks = std::vector<Rank>;

TEST(TsEngineSum, TS_3_MixesByWeightAndKeepsCount) {
  Sum sum;
  mix(sum, {2, {3}, {1, 10}});
  mix(sum, {6, {0, 5}, {5, 10}});
  EXPECT_EQ(sum.values, (std::vector<float>{4, 10})) << "equal ones come back bit-equal";
  EXPECT_EQ(sum.weight, 8);
  EXPECT_EQ(sum.counted, (Ranks{0, 3, 5}));
}

TEST(TsEngineSum, TS_2_NobodyIsAddedTwice) {
  Sum sum{2, {3}, {1}};
  EXPECT_DEATH(mix(sum, {2, {1, 3}, {1}}), "disjoint");
}

}  // namespace
}  // namespace longhaul::overlay::tsengine
