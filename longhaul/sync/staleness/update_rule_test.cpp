#include "longhaul/sync/staleness/update_rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/archived.h"

namespace longhaul::sync::staleness {
namespace {

// The second update of a worker that has had the gradient 2 before, and has 1 now; rate 0.1.
float second(UpdateRule rule) {
  const std::vector<float> two = {2, 2}, one = {1, 1};
  rule.update(two, 0.1);
  const auto u = rule.update(one, 0.1);
  EXPECT_EQ(u[0], u[1]);
  return u[0];
}

TEST(UpdateRule, EachIsItsFormula) {
  EXPECT_FLOAT_EQ(second(UpdateRule({.kind = "sgd"})), -0.1f);
  EXPECT_FLOAT_EQ(second(UpdateRule({.kind = "momentum", .momentum = 0.5})), -0.1f * 2);
  EXPECT_FLOAT_EQ(second(UpdateRule({.kind = "adagrad"})), float(-0.1 / std::sqrt(5.0)));
  EXPECT_FLOAT_EQ(second(UpdateRule({.kind = "rmsprop", .decay = 0.75})),
                  float(-0.1 / std::sqrt(0.75 * 1 + 0.25 * 1)));
  const double m = (0.9 * 0.1 * 2 + 0.1 * 1) / (1 - 0.9 * 0.9);
  const double v = (0.999 * 0.001 * 4 + 0.001 * 1) / (1 - 0.999 * 0.999);
  EXPECT_NEAR(second(UpdateRule({.kind = "adam"})), -0.1 * m / std::sqrt(v), 1e-6);
}

TEST(UpdateRule, GoesOnFromItsState) {
  for (const char* kind : {"sgd", "momentum", "adagrad", "rmsprop", "adam"}) {
    UpdateRule rule({.kind = kind}), loaded({.kind = kind});
    const std::vector<float> g = {3, -1}, next = {0.5f, 2};
    rule.update(g, 0.1);
    ASSERT_TRUE(longhaul::testing::copy_state(rule, loaded));
    EXPECT_EQ(rule.update(next, 0.1), loaded.update(next, 0.1)) << kind;
  }
}

}  // namespace
}  // namespace longhaul::sync::staleness
