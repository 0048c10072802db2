#include "longhaul/base/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return invalid("odd");
  return x / 2;
}

Status both(int a, int b) {
  LH_TRY(half(a));
  LH_TRY(half(b));
  return Ok{};
}

TEST(Result, IsAValueOrAnError) {
  const Result<int> good = half(4), bad = half(3);
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 2);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().what, "odd");
  EXPECT_EQ(bad.error().kind, Error::Kind::invalid_argument);
}

TEST(Result, TryLeavesWithTheFirstError) {
  EXPECT_TRUE(both(2, 4));
  EXPECT_FALSE(both(1, 4));
  EXPECT_FALSE(both(2, 3));
}

TEST(Result, MovesItsValueOut) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 5);
}

TEST(Result, KindsOfErrors) {
  EXPECT_EQ(malformed("x").kind, Error::Kind::malformed);
  EXPECT_EQ(unavailable("x").kind, Error::Kind::unavailable);
}

TEST(ResultDeathTest, TheWrongHalfIsACheck) {
  EXPECT_DEATH((void)*half(3), "check failed");
  EXPECT_DEATH((void)half(4).error(), "check failed");
}

}  // namespace
}  // namespace longhaul
