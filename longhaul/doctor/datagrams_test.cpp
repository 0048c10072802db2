#include "longhaul/doctor/datagrams.h"

#include <gtest/gtest.h>

namespace longhaul::doctor {
namespace {

TEST(DatagramCounter, CountsEachDatagramOnceAndTheMarkedOnes) {
  DatagramCounter counter(3);
  counter.add(0, true);
  counter.add(0, true);  // a duplicate
  counter.add(2, false);
  counter.add(3, true);  // nobody sent that
  counter.add(0xFFFFFFFF, true);
  EXPECT_EQ(counter.counted().came, 2u);
  EXPECT_EQ(counter.counted().marked, 1u);
}

TEST(DatagramCounter, LossIsWhatDidNotCome) {
  DirectionResult way;
  EXPECT_EQ(way.loss(), 0);
  EXPECT_FALSE(way.udp_passes());
  way.sent = 200;
  way.counted.came = 150;
  EXPECT_NEAR(way.loss(), 0.25, 1e-12);
}

}  // namespace
}  // namespace longhaul::doctor
