#include "longhaul/flow/queue.h"

#include <gtest/gtest.h>

namespace longhaul::flow {
namespace {

constexpr Tcp kQueueBbr{.control = Tcp::Control::bbr};
constexpr Tcp kQueueCubic{.control = Tcp::Control::cubic};

TEST(QueueWait, SeveralOfBbrFillARoundTripAndOneNothing) {
  EXPECT_DOUBLE_EQ(queue_wait_s(kQueueBbr, 0, 0.04, 0.1), 0);
  EXPECT_DOUBLE_EQ(queue_wait_s(kQueueBbr, 1, 0.04, 0.1), 0);
  EXPECT_DOUBLE_EQ(queue_wait_s(kQueueBbr, 2, 0.04, 0.1), 0.04);
  EXPECT_DOUBLE_EQ(queue_wait_s(kQueueBbr, 2, 0.04, 0.01), 0.01);
}

TEST(QueueWait, CubicFillsAnyQueueNearly) {
  EXPECT_DOUBLE_EQ(queue_wait_s(kQueueCubic, 0, 0.04, 0.1), 0);
  EXPECT_DOUBLE_EQ(queue_wait_s(kQueueCubic, 1, 0.04, 0.1), 0.925 * 0.14 - 0.04);
  EXPECT_DOUBLE_EQ(queue_wait_s(kQueueCubic, 3, 0.04, 0), 0);  // falls below what fills the port
  EXPECT_GT(queue_wait_s(kQueueCubic, 1, 0, 1), 0.9);
}

TEST(BbrEstimate, DoublesWhereNothingWaitsAndNotWhereARoundTripDoes) {
  BbrEstimate estimate;
  EXPECT_DOUBLE_EQ(estimate.most(kQueueBbr, 0.04, 0.04), 0);  // knows nothing: limits nothing
  estimate.round(1e6);
  EXPECT_DOUBLE_EQ(estimate.most(kQueueBbr, 0.04, 0.04), 2e6);
  EXPECT_DOUBLE_EQ(estimate.most(kQueueBbr, 0.04, 0.06), 1e6 * 4 / 3);
  EXPECT_DOUBLE_EQ(estimate.most(kQueueBbr, 0.04, 0.08), 1e6);
  EXPECT_DOUBLE_EQ(estimate.most(kQueueBbr, 0.04, 0.2), 1e6);  // what it has it keeps
}

TEST(BbrEstimate, ForgetsALargerRateAfterTenRoundTrips) {
  BbrEstimate estimate;
  estimate.begin(4e6);
  for (int i = 0; i < 9; ++i) estimate.round(1e6);
  EXPECT_DOUBLE_EQ(estimate.most(kQueueBbr, 0.04, 0.08), 4e6);
  estimate.round(1e6);
  EXPECT_DOUBLE_EQ(estimate.most(kQueueBbr, 0.04, 0.08), 1e6);
}

}  // namespace
}  // namespace longhaul::flow
