#include "longhaul/transfer/dgt/cut.h"

#include <gtest/gtest.h>

namespace longhaul::transfer::dgt {
namespace {

const Layout kLayout({{"a", {0, 10}, {10}}, {"b", {10, 3}, {3}}, {"c", {13, 8}, {8}}});

std::vector<std::pair<std::uint64_t, std::uint64_t>> bounds(const std::vector<Block>& blocks) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  for (const Block& block : blocks) all.emplace_back(block.range.offset, block.range.length);
  return all;
}

TEST(Cut, EndsAtBlocksAndTensors) {
  const auto blocks = cut({{0, 21}}, kLayout, 4);
  EXPECT_EQ(bounds(blocks), (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                                {0, 4}, {4, 4}, {8, 2}, {10, 3}, {13, 4}, {17, 4}}));
  EXPECT_EQ(blocks[2].tensor, 0u);
  EXPECT_EQ(blocks[3].tensor, 1u);
  EXPECT_EQ(blocks[5].tensor, 2u);
}

TEST(Cut, EndsAtStretchesAndGoesOnBehindTheLayout) {
  EXPECT_EQ(bounds(cut({{2, 4}, {12, 2}, {19, 9}}, kLayout, 4)),
            (std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                {2, 2}, {4, 2}, {12, 1}, {13, 1}, {19, 2}, {21, 4}, {25, 3}}));
  EXPECT_EQ(cut({{19, 9}}, kLayout, 4).back().tensor, 3u);
}

TEST(Cut, ABlockIsTheSameWithoutTheOthers) {
  for (const std::vector<Range>& ranges :
       {std::vector<Range>{{0, 21}}, {{2, 4}, {12, 2}, {19, 9}}, {{0, 7}, {7, 14}}, {{25, 30}}}) {
    for (std::uint64_t block : {1u, 3u, 4u, 100u}) {
      const auto all = cut(ranges, kLayout, block);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Block one = block_of(ranges, kLayout, block, i);
        EXPECT_EQ(bounds({one}), bounds({all[i]})) << "block " << i << " of " << block;
        EXPECT_EQ(one.tensor, all[i].tensor);
      }
    }
  }
}

TEST(Cut, IsBounded) {
  for (std::uint64_t block : {1u, 3u, 4u, 100u})
    EXPECT_LE(cut({{0, 7}, {7, 14}}, kLayout, block).size(), most_blocks(21, 2, kLayout, block));
}

}  // namespace
}  // namespace longhaul::transfer::dgt
