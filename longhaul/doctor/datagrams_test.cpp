#include "longhaul/doctor/datagrams.h"

#include <gtest/gtest.h>

namespace longhaul::doctor {
namespace {

TEST(Tally, CountsEachDatagramOnceAndTheMarkedOnes) {
  Tally tally(3);
  tally.add(0, true);
  tally.add(0, true);  // a duplicate
  tally.add(2, false);
  tally.add(3, true);  // nobody sent that
  tally.add(0xFFFFFFFF, true);
  EXPECT_EQ(tally.counted().came, 2u);
  EXPECT_EQ(tally.counted().marked, 1u);
}

TEST(Tally, LossIsWhatDidNotCome) {
  Way way;
  EXPECT_EQ(way.loss(), 0);
  EXPECT_FALSE(way.udp_passes());
  way.sent = 200;
  way.counted.came = 150;
  EXPECT_NEAR(way.loss(), 0.25, 1e-12);
}

}  // namespace
}  // namespace longhaul::doctor
