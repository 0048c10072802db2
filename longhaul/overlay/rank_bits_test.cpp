#include "longhaul/overlay/rank_bits.h"

#include <gtest/gtest.h>

namespace longhaul::overlay {
namespace {

// mutant: longhaul/overlay/rank_bits.cpp
//   - if (bits.size() <= rank / 8) bits.resize(rank / 8 + 1);
//   + if (bits.size() <= rank / 8) bits.resize(rank / 8 + 2);
// mutant: longhaul/overlay/rank_bits.cpp
//   - bits[rank / 8] = std::uint8_t(bits[rank / 8] | 1u << rank % 8);
//   + bits[rank / 8] = std::uint8_t(1u << rank % 8);
TEST(RankBits, AreAsDescribed) {
  EXPECT_EQ(to_bits({}), std::vector<std::uint8_t>{});
  EXPECT_EQ(to_bits({0, 3, 7, 17}), (std::vector<std::uint8_t>{0b1000'1001, 0, 0b10}));
}

// mutant: longhaul/overlay/rank_bits.cpp
//   - for (std::size_t bit = 0; bit < bits.size() * 8; ++bit)
//   + for (std::size_t bit = 1; bit < bits.size() * 8; ++bit)
TEST(RankBits, ComeBackInOrder) {
  EXPECT_EQ(from_bits(to_bits({17, 0, 3})), (std::vector<Rank>{0, 3, 17}));
  EXPECT_EQ(from_bits({0, 0}), std::vector<Rank>{});
}

}  // namespace
}  // namespace longhaul::overlay
