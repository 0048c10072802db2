#include "longhaul/sync/gadmm/dual_ledger.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/one_node.h"

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
}

// The ledger of one of three workers in a later view.
struct LedgerNode {
  explicit LedgerNode(Rank self) : node(4, {}, Members{{"a"}, {"b"}, {"c"}}) {
    node.place.self = self;
    node.view.epoch = 1;
  }
  Status receive(Rank from, std::uint64_t steps, Epoch epoch = 1) {
    Message message = longhaul::testing::message_of(DualLedger::Steps{steps});
    message.epoch = epoch;
    return ledger.on_message(from, message, node.turn);
  }
  testing::OneNode node;
  DualLedger ledger;
};

// A model was used at one end, and not at the other.
TEST(DualLedger, TheEndWithMoreStepsUndoesItsLast) {
  LedgerNode ahead(0), behind(1);
  ahead.ledger.step(1, 1, Vector{0.1}, Vector{2});
  behind.ledger.step(0, 1, Vector{2}, Vector{0.1});
  ahead.ledger.step(1, 1, Vector{1}, Vector{5});
  ASSERT_TRUE(ahead.receive(1, 1, 0));
  EXPECT_EQ(ahead.ledger.of(1)->steps, 2u) << "a report of the view before";
  ASSERT_TRUE(ahead.receive(1, 1));
  ASSERT_TRUE(behind.receive(0, 2));
  EXPECT_EQ(ahead.ledger.of(1)->values, (Vector{0.1 - 2}));
  EXPECT_EQ(behind.ledger.of(0)->values, (Vector{-(0.1 - 2)}));
  ASSERT_TRUE(ahead.receive(1, 1));
  EXPECT_EQ(ahead.ledger.of(1)->steps, 1u) << "once";
  // A worker that it has never been a neighbour of.
  ASSERT_TRUE(behind.receive(2, 4));
  EXPECT_EQ(behind.ledger.of(2), nullptr);
}

TEST(DualLedger, AnEndIsAtMostOneStepAhead) {
  LedgerNode ahead(0);
  for (int k = 0; k < 2; ++k) ahead.ledger.step(1, 1, Vector{2}, Vector{0});
  EXPECT_FALSE(ahead.receive(1, 0));
  EXPECT_EQ(ahead.ledger.of(1)->values, (Vector{4}));
}

TEST(DualLedger, InAViewItReportsItsStepsAndDropsLostWorkers) {
  LedgerNode one(0);
  one.ledger.step(1, 1, Vector{2}, Vector{0});
  one.ledger.step(2, 1, Vector{3}, Vector{0});
  one.ledger.enter_view({2}, one.node.turn);
  EXPECT_EQ(one.ledger.of(1), nullptr);
  EXPECT_EQ(one.ledger.sum(1), (Vector{3}));
  const auto sent = one.node.done<Send>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, 2u);
  EXPECT_EQ(from_wire<DualLedger::Steps>(sent[0].message.head.view())->steps, 1u);
}

}  // namespace
}  // namespace longhaul::sync::gadmm
