#include "longhaul/overlay/rank_bits.h"

#include <gtest/gtest.h>

namespace longhaul::overlay {
namespace {

TEST(RankBits, AreAsDescribed) {
  EXPECT_EQ(to_bits({}), std::vector<std::uint8_t>{});
  EXPECT_EQ(to_bits({0, 3, 7, 17}), (std::vector<std::uint8_t>{0b1000'1001, 0, 0b10}));
}

TEST(RankBits, ComeBackInOrder) {
  EXPECT_EQ(from_bits(to_bits({17, 0, 3})), (std::vector<Rank>{0, 3, 17}));
  EXPECT_EQ(from_bits({0, 0}), std::vector<Rank>{});
}

}  // namespace
}  // namespace longhaul::overlay
