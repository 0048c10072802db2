#include "longhaul/core/sample_count.h"

#include <limits>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// A sum that leaves its message's range would fail the node that adds up, not the one that lies.
TEST(SampleCount, StaysWithinWhatMessagesHold) {
  constexpr auto kMost = std::uint64_t(kMostSamples);
  EXPECT_EQ(plus_samples(3, 4), 7u);
  EXPECT_EQ(plus_samples(3, 0.5), 4u) << "half up";
  EXPECT_EQ(plus_samples(kMost - 1, 1), kMost);
  EXPECT_EQ(plus_samples(kMost, kMostSamples), kMost);
  for (const double no_number : {-5.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(plus_samples(3, no_number), 3u);
  for (const double huge : {1e200, std::numeric_limits<double>::infinity()})
    EXPECT_EQ(plus_samples(3, huge), kMost);
}

}  // namespace
}  // namespace longhaul
