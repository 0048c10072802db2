#include "longhaul/codec/stochastic.h"

#include <vector>

#include <gtest/gtest.h>

namespace longhaul::codec {
namespace {

using Levels = std::vector<std::int8_t>;

Levels rounded(const std::vector<float>& values, float norm, std::uint32_t levels,
               const std::vector<std::uint32_t>& draws) {
  Levels out(values.size(), 99);
  round_stochastically(values, norm, levels, draws, out);
  return out;
}

// Draws that are spread evenly over their range: as many round up as the fraction says, exactly.
TEST(Stochastic, RoundsUpWithTheProbabilityOfTheFraction) {
  for (const float sign : {1.f, -1.f}) {
    for (const int quarters : {1, 2, 3}) {
      int sum = 0;
      for (std::uint32_t i = 0; i < 256; ++i) {
        const float value = sign * (2 + 0.25f * float(quarters));
        const int level = rounded({value}, 4, 4, {i << 24})[0];
        EXPECT_TRUE(level == int(sign) * 2 || level == int(sign) * 3) << level;
        sum += level;
      }
      EXPECT_EQ(sum, int(sign) * (2 * 256 + 64 * quarters));
    }
  }
}

TEST(Stochastic, WholeLevelsStayWhateverIsDrawn) {
  for (const std::uint32_t draw : {0u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    EXPECT_EQ(rounded({-127, -1, 0, 64, 127}, 127, 127, std::vector(5, draw)),
              (Levels{-127, -1, 0, 64, 127}));
}

TEST(Stochastic, ANormThatIsTooSmallByRoundingOrNoneGivesNoLevelBeyond) {
  EXPECT_EQ(rounded({1.0000001f, -1.0000001f}, 1, 3, {0, 0}), (Levels{3, -3}));
  EXPECT_EQ(rounded({0, 0}, 0, 3, {0, 0xFFFFFFFF}), (Levels{0, 0}));
}

}  // namespace
}  // namespace longhaul::codec
