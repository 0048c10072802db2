#include "longhaul/sync/gadmm/dual_ledger.h"

#include <gtest/gtest.h>

namespace longhaul::sync::gadmm {
namespace {

using Vector = std::vector<double>;

// gadmm_test.cpp, invariant 2.
TEST(DualLedger, BothEndsOfAnEdgeHoldOppositeBits) {
  DualLedger left, right;
  Vector a = {0.1, 1e9}, b = {0.3, -7};
  for (int k = 0; k < 100; ++k) {
    left.step(1, 0.7, a, b);
    right.step(0, 0.7, b, a);
    for (double& v : a) v = v * 0.9 + 0.01 * k;
    for (double& v : b) v = v * 0.8 - 0.02 * k;
    for (std::size_t i = 0; i < 2; ++i) ASSERT_EQ(left.of(1)->values[i], -right.of(0)->values[i]);
  }
}

TEST(DualLedger, AddsUpWhatItHoldsForEverybodyItEverMet) {
  DualLedger ledger;
  EXPECT_EQ(ledger.sum(2), (Vector{0, 0}));
  ledger.step(4, 2, Vector{1, 1}, Vector{0, 3});
  ledger.step(7, 2, Vector{1, 1}, Vector{2, 2});
  EXPECT_EQ(ledger.sum(2), (Vector{0, -6}));
  ledger.drop(4);
  EXPECT_EQ(ledger.sum(2), (Vector{-2, -2}));
}

// A model was used at one end, and not at the other.
TEST(DualLedger, TheEndWithFewerStepsTakesTheOthers) {
  DualLedger behind, ahead;
  behind.step(1, 1, Vector{2}, Vector{0});
  ahead.step(0, 1, Vector{0}, Vector{2});
  ahead.step(0, 1, Vector{1}, Vector{5});
  const DualLedger::Dual before = *behind.of(1);
  behind.repair(1, *ahead.of(0));
  ahead.repair(0, before);
  EXPECT_EQ(ahead.of(0)->values, (Vector{-6}));
  EXPECT_EQ(behind.of(1)->values, (Vector{6}));
  EXPECT_EQ(behind.of(1)->steps, 2u);
  // One that has never met the other, and one of which nobody has heard.
  DualLedger fresh;
  fresh.repair(3, {});
  EXPECT_EQ(fresh.of(3), nullptr);
  fresh.repair(0, *ahead.of(0));
  EXPECT_EQ(fresh.of(0)->values, (Vector{6}));
}

TEST(DualLedger, EqualStepsChangeNothing) {
  DualLedger ledger;
  ledger.step(1, 1, Vector{2}, Vector{0});
  ledger.repair(1, {.steps = 1, .values = {99}});
  EXPECT_EQ(ledger.of(1)->values, (Vector{2}));
}

}  // namespace
}  // namespace longhaul::sync::gadmm
