// Who has a bucket, and the slots that all buckets share.
#include "longhaul/overlay/tsengine_spread.h"

#include <gtest/gtest.h>

namespace longhaul::overlay::tsengine {
namespace {

using Ranks = std::vector<Rank>;

TEST(TsEngineSpread, TS_1_ABucketIsReceivedOnce) {
  Spread spread(0, {1, 2});
  Slots slots;
  EXPECT_EQ(spread.candidates(slots), (Ranks{1, 2}));
  spread.assigned(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{2}));
  spread.failed(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{1, 2}));
  spread.assigned(1);
  spread.served(1);
  EXPECT_TRUE(spread.received(1)) << "its sender said it first";
  EXPECT_FALSE(spread.received(1));
  EXPECT_FALSE(spread.received(0)) << "the server had it";
  EXPECT_FALSE(spread.received(7));
  spread.failed(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{2})) << "has it whatever else is said";
  EXPECT_FALSE(spread.all_have());
  EXPECT_TRUE(spread.received(2));
  EXPECT_TRUE(spread.all_have());
  for (const Rank rank : {0u, 1u, 2u}) {
    EXPECT_FALSE(spread.over());
    spread.let_go(rank);
  }
  EXPECT_TRUE(spread.over());
  EXPECT_DEATH(spread.let_go(1), "has") << "each holder once";
}

TEST(TsEngineSlots, TS_6_NobodyIsPairedWithItself) {
  Slots slots;
  EXPECT_DEATH(slots.take(1, 1), "from != to");
  slots.take(1, 2);
  EXPECT_DEATH(slots.take(1, 3), "free");
}

}  // namespace
}  // namespace longhaul::overlay::tsengine
