#include "longhaul/flow/lp.h"

#include <gtest/gtest.h>

#include "longhaul/flow/rate.h"

namespace longhaul::flow {
namespace {

TEST(Lp, PricesAreWhatABoundIsWorth) {
  Lp lp;
  const int x = lp.add_column(0, kUnlimited, 3), y = lp.add_column(0, kUnlimited, 2);
  const int both = lp.add_row(-kUnlimited, 4, {{x, 1}, {y, 1}});
  const int first = lp.add_row(-kUnlimited, 1, {{x, 1}});
  const int loose = lp.add_row(-kUnlimited, 9, {{y, 1}});
  ASSERT_TRUE(lp.maximise());
  EXPECT_NEAR(lp.value(x), 1, 1e-9);
  EXPECT_NEAR(lp.value(y), 3, 1e-9);
  EXPECT_NEAR(lp.price(both), 2, 1e-9);
  EXPECT_NEAR(lp.price(first), 1, 1e-9);
  EXPECT_NEAR(lp.price(loose), 0, 1e-9);
}

TEST(Lp, ColumnsMayComeAfterRowsAndSolutions) {
  Lp lp;
  const int x = lp.add_column(0, kUnlimited, 1);
  const int row = lp.add_row(-kUnlimited, 6, {{x, 3}});
  ASSERT_TRUE(lp.maximise());
  EXPECT_NEAR(lp.value(x), 2, 1e-9);
  const int y = lp.add_column(0, kUnlimited, 1, {{row, 2}});
  ASSERT_TRUE(lp.maximise());
  EXPECT_NEAR(lp.value(y), 3, 1e-9);
  lp.add_row(-kUnlimited, 1, {{y, 1}});
  ASSERT_TRUE(lp.maximise());
  EXPECT_NEAR(lp.value(x), 4.0 / 3, 1e-9);
}

}  // namespace
}  // namespace longhaul::flow
