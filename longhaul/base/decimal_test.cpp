#include "longhaul/base/decimal.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// Against whole numbers: all decimals of two places, of all sizes up to 400.
TEST(Decimal, WholeNumbersOfAShareAreThoseOfTheDecimal) {
  for (std::int64_t hundredths = 0; hundredths <= 100; ++hundredths)
    for (std::int64_t size = 0; size <= 400; ++size) {
      const std::int64_t exact = hundredths * size;  // in hundredths
      const double x = double(hundredths) / 100 * double(size);
      EXPECT_EQ(whole_up(x), double((exact + 99) / 100)) << hundredths << " " << size;
      EXPECT_EQ(whole_down(x), double(exact / 100)) << hundredths << " " << size;
      EXPECT_EQ(whole_nearest(x), double((exact + 50) / 100)) << hundredths << " " << size;
      EXPECT_EQ(whole_down((1 - double(hundredths) / 100) * double(size)),
                double((100 * size - exact) / 100))
          << hundredths << " " << size;
    }
}

TEST(Decimal, WhatIsNoWholeNumberStaysOnItsSide) {
  EXPECT_EQ(whole_up(7 + 1e-9), 8);
  EXPECT_EQ(whole_down(45 - 1e-9), 44);
  EXPECT_EQ(whole_nearest(2.5 - 1e-9), 2);
}

}  // namespace
}  // namespace longhaul
