#include "longhaul/transfer/dgt/residuals.h"

#include <gtest/gtest.h>

namespace longhaul::transfer::dgt {
namespace {

const Residuals::Vector kVector{0, 0};

TEST(Residuals, AreAddedOnce) {
  Residuals residuals;
  residuals.give(kVector, 2, std::vector<float>{1, 2});
  residuals.give(kVector, 3, std::vector<float>{10});
  std::vector<float> values = {5, 5, 5, 5, 5};
  EXPECT_EQ(residuals.take(kVector, 0, values), (std::vector<float>{0, 0, 1, 12, 0}));
  EXPECT_EQ(values, (std::vector<float>{5, 5, 6, 17, 5}));
  EXPECT_TRUE(residuals.take(kVector, 0, values).empty());
  EXPECT_EQ(values, (std::vector<float>{5, 5, 6, 17, 5}));
  EXPECT_TRUE(residuals.take({1, 0}, 0, values).empty());
}

PushRecord push() {
  PushRecord record;
  record.parts = {{0, 0, {}, {1}}, {1, 1, {7}, {2}}, {2, 2, {8}, {}}};
  return record;
}

Bitmap but_the_second() {
  Bitmap counted = empty_bitmap(3);
  insert(counted, 0);
  insert(counted, 2);
  return counted;
}

TEST(Residuals, WhatIsNotCountedComesBackAsItWasSent) {
  Residuals residuals;
  PushRecord record = push();
  settle(record, but_the_second(), residuals);
  ASSERT_EQ(residuals.of(kVector).size(), 2u);
  EXPECT_EQ(residuals.of(kVector)[0], 0);
  EXPECT_EQ(residuals.of(kVector)[1], 7);
}

TEST(Residuals, WhatIsUndoneGivesBackWhatItTook) {
  for (const bool settled : {false, true}) {
    Residuals residuals;
    PushRecord record = push();
    if (settled) settle(record, but_the_second(), residuals);
    undo(record, residuals);
    ASSERT_EQ(residuals.of(kVector).size(), 2u);
    EXPECT_EQ(residuals.of(kVector)[0], 1);
    EXPECT_EQ(residuals.of(kVector)[1], 2);
  }
}

TEST(Bitmaps, KnowTheirLength) {
  Bitmap set = empty_bitmap(9);
  EXPECT_EQ(set.size(), 2u);
  insert(set, 8);
  EXPECT_TRUE(has(set, 8));
  EXPECT_FALSE(has(set, 7));
  EXPECT_FALSE(has(set, 1000));
  EXPECT_EQ(count(set), 1u);
  EXPECT_TRUE(is_of(set, 9));
  EXPECT_FALSE(is_of(set, 8)) << "another length";
  EXPECT_FALSE(is_of(set, 17)) << "another length";
  insert(set, 9);
  EXPECT_FALSE(is_of(set, 9)) << "a block that is not there";
  EXPECT_TRUE(is_subset(empty_bitmap(9), set));
  EXPECT_FALSE(is_subset(set, empty_bitmap(9)));
}

}  // namespace
}  // namespace longhaul::transfer::dgt
