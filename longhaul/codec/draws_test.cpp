#include "longhaul/codec/draws.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace longhaul::codec {
namespace {

constexpr CodecKey kKey{{.round = (std::uint64_t{7} << 32) | 5, .group = 3, .range = 1}, 2};
// The counter of four elements has 32 bits, and what goes beyond is in another word.
constexpr std::uint64_t kCarry = std::uint64_t{4} << 32;

// Long stretches are drawn 64 counters, 256 elements, at a time: from wherever they begin, and over
// the carry, they are what each element draws alone.
TEST(Draws, AStretchIsWhatItsElementsDraw) {
  const Draws draws(0x123456789abcdef0, kKey);
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{6},
                                    std::uint64_t{1003}, kCarry - 301, kCarry - 4, kCarry + 1})
    for (const std::size_t count : {0u, 1u, 3u, 255u, 256u, 257u, 600u, 1025u}) {
      std::vector<std::uint32_t> all(count);
      draws.fill(first, all);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(all[i], draws.at(first + i)) << first << " + " << i << " of " << count;
    }
}

TEST(Draws, DependOnSeedVectorAndElement) {
  const auto first = [](std::uint64_t seed, const CodecKey& key) { return Draws(seed, key).at(0); };
  std::set<std::uint32_t> drawn = {first(1, kKey), first(2, kKey), Draws(1, kKey).at(1),
                                   Draws(1, kKey).at(kCarry)};
  for (const CodecKey& other : {CodecKey{{.round = kKey.round + 1, .group = 3, .range = 1}, 2},
                                CodecKey{{.round = 5, .group = 3, .range = 1}, 2},
                                CodecKey{{.round = kKey.round, .group = 4, .range = 1}, 2},
                                CodecKey{{.round = kKey.round, .group = 3, .range = 0}, 2},
                                CodecKey{{.round = kKey.round, .group = 3, .range = 1}, 0}})
    drawn.insert(first(1, other));
  EXPECT_EQ(drawn.size(), 9u);
  EXPECT_EQ(first(1, kKey), first(1, kKey));
}

}  // namespace
}  // namespace longhaul::codec
