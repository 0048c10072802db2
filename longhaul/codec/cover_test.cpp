#include "longhaul/codec/cover.h"

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::codec {
namespace {

// Against one flag an element.
TEST(Cover, GapsAndRangesAreThoseOfAListOfFlags) {
  Random random(3, {});
  for (int trial = 0; trial < 100; ++trial) {
    constexpr std::uint64_t kSize = 40;
    Cover cover;
    std::vector<bool> covered(kSize, false);
    EXPECT_TRUE(cover.empty());
    for (int step = 0; step < 8; ++step) {
      const std::uint64_t from = random.below(kSize), length = random.below(kSize - from);
      cover.add({from, length});
      for (std::uint64_t i = from; i < from + length; ++i) covered[i] = true;
      std::vector<bool> in_ranges(kSize, false), in_gaps(kSize, false);
      std::uint64_t last = 0;
      for (const Range& range : cover.ranges()) {
        EXPECT_TRUE(range.offset > last || last == 0) << "touching or out of order";
        for (std::uint64_t i = range.offset; i < range.end(); ++i) in_ranges[i] = true;
        last = range.end();
      }
      EXPECT_EQ(cover.end(), last);
      const Range at{5, 25};
      for (const Range& gap : cover.gaps(at))
        for (std::uint64_t i = gap.offset; i < gap.end(); ++i) in_gaps[i] = true;
      EXPECT_EQ(in_ranges, covered);
      for (std::uint64_t i = 0; i < kSize; ++i)
        EXPECT_EQ(in_gaps[i], i >= at.offset && i < at.end() && !covered[i]) << i;
    }
    cover.clear();
    EXPECT_TRUE(cover.empty());
  }
}

TEST(Cover, WhatIsLoadedIsInOrder) {
  Cover cover;
  cover.add({3, 4});
  cover.add({20, 5});
  Archive out;
  cover.state(out);
  const Buffer bytes = out.take();
  Archive in(bytes);
  Cover loaded;
  loaded.state(in);
  ASSERT_TRUE(in.finish());
  EXPECT_EQ(loaded.ranges(), cover.ranges());
  std::map<std::uint64_t, std::uint64_t> overlapping{{3, 9}, {5, 12}};
  Archive bad;
  bad(overlapping);
  const Buffer wrong = bad.take();
  Archive reader(wrong);
  loaded.state(reader);
  EXPECT_FALSE(reader.finish());
}

}  // namespace
}  // namespace longhaul::codec
