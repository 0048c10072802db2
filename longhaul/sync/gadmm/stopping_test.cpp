#include "longhaul/sync/gadmm/stopping.h"

#include <gtest/gtest.h>

namespace longhaul::sync::gadmm {
namespace {

const std::vector<Rank> kTwo = {0, 1};

// The figures of two workers, round after round.
std::optional<Round> holds_since(Stopping::Config config,
                                 const std::vector<std::pair<double, double>>& figures) {
  Stopping stopping(std::move(config));
  for (Round k = 0; k < figures.size(); ++k) {
    stopping.add(1, k, figures[k].second);
    EXPECT_TRUE(stopping.judge(kTwo).empty());
    stopping.add(0, k, figures[k].first);
    stopping.judge(kTwo);
  }
  return stopping.holds_since();
}

// gadmm_test.cpp, invariant 4: a change of sign is enough for the published rule.
TEST(Stopping, ThePublishedRuleHoldsOnAChangeOfSign) {
  const std::vector<std::pair<double, double>> figures = {{3, 2}, {2, 3.05}, {2, 2}, {2, 3.01}};
  EXPECT_EQ(holds_since({"published", 5, 0.1, 100}, {{3, 3}, {2, 3.05}, {2, 2}}), 1u);
  EXPECT_EQ(holds_since({"settled", 5, 0.1, 2}, {{2, 3.05}, {2, 2}, {2, 3.01}, {2, 3}}), 2u);
  EXPECT_EQ(holds_since({"settled", 5, 0.1, 3}, figures), std::nullopt);
}

TEST(Stopping, EveryModelIsTheWorstOfThem) {
  EXPECT_EQ(holds_since({"every_model", 5, 0.1, 100}, {{5, 5.2}, {5.05, 5.01}}), 1u);
  EXPECT_EQ(holds_since({"every_model", 5, 0.1, 100}, {{5, Stopping::kUnknown}}), std::nullopt);
}

TEST(Stopping, WaitsForAllAndSaysForWhom) {
  Stopping stopping({.rule = "published", .least = 1});
  stopping.add(0, 1, 1);
  stopping.add(0, 0, 7);
  EXPECT_EQ(stopping.missing(kTwo), (std::vector<Rank>{1}));
  EXPECT_TRUE(stopping.judge(kTwo).empty());
  EXPECT_EQ(stopping.judge({0}).size(), 2u);  // rank 1 is lost
  EXPECT_EQ(stopping.holds_since(), 1u);
}

TEST(Stopping, AfterALossItBeginsAnew) {
  Stopping stopping({.rule = "published", .least = 1});
  stopping.add(0, 0, 1);
  stopping.add(0, 5, 1);
  stopping.begin(4);
  stopping.add(0, 3, 1);
  EXPECT_TRUE(stopping.judge({0}).empty());
  stopping.add(0, 4, 1);
  EXPECT_EQ(stopping.judge({0}).size(), 1u);
  EXPECT_EQ(stopping.holds_since(), 4u);
  EXPECT_EQ(stopping.next(), 5u);
}

}  // namespace
}  // namespace longhaul::sync::gadmm
