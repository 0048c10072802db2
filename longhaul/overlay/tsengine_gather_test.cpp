#include "longhaul/overlay/tsengine_gather.h"

#include <gtest/gtest.h>

namespace longhaul::overlay::tsengine {
namespace {

const Rate kUnknown = [](Rank, Rank) -> std::optional<double> { return std::nullopt; };

TEST(TsEngineGather, FirstReadyFirstPaired) {
  Gather gather(9);
  Slots slots;
  for (const Rank rank : {4u, 2u, 6u}) gather.ready(rank);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{4, 9})) << "the server receives";
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{6, 2})) << "of equal ones the later sends";
  EXPECT_FALSE(gather.match(slots, kUnknown));
  gather.ready(2), gather.ready(9);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{2, 9}));
  gather.ready(1), gather.ready(3);
  const Rate known = [](Rank from, Rank) { return from == 1 ? std::optional(5.0) : std::nullopt; };
  EXPECT_EQ(gather.match(slots, known), (Pair{1, 3})) << "over the faster link";
}

TEST(TsEngineGather, TS_4_WhoIsBusyIsPassedOver) {
  Gather gather(9);
  Slots slots;
  slots.take(7, 9);  // of another bucket
  gather.ready(1);
  EXPECT_FALSE(gather.match(slots, kUnknown));
  gather.ready(2);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{2, 1}));
  gather.ready(7);
  EXPECT_FALSE(gather.match(slots, kUnknown));
  slots.free_out(7), slots.free_in(9);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{7, 9}));
}

}  // namespace
}  // namespace longhaul::overlay::tsengine
