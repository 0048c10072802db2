#include "longhaul/sync/gossip/neighbours.h"

#include <gtest/gtest.h>

namespace longhaul::sync::gossip {
namespace {

NeighbourModel model_in(Round round) {
  return {.round = round, .values = std::make_shared<const std::vector<float>>()};
}

TEST(Neighbours, WeightsAreThoseOfTheGraphOfTheLiveWorkers) {
  const auto rates = [](Rank from, Rank to) { return from == 2 || to == 2 ? 1.0 : 10.0; };
  const auto ring = Neighbours::weights("ring", 2, {}, {1, 4, 6, 9}, 1);
  EXPECT_EQ(ring, (Neighbours::Weights{{4, 1.0 / 3}, {9, 1.0 / 3}}));
  // Rank 2 is slow: it gets the one edge that it needs, and what is left.
  const auto slow = Neighbours::weights("best_rate", 2, rates, {0, 1, 2, 5}, 2);
  EXPECT_EQ(slow.size(), 2u);
  EXPECT_TRUE(Neighbours::weights("ring", 2, {}, {7}, 7).empty());
}

TEST(Neighbours, ARoundIsMixedWhenAllOfItIsHere) {
  Neighbours one;
  one.enter({{1, 0.5}, {2, 0.25}}, 0, true);
  EXPECT_EQ(one.in(0), (std::vector<Rank>{1, 2}));
  EXPECT_TRUE(one.admit_model(2, 0, 0));
  one.keep(2, model_in(0));
  EXPECT_EQ(one.missing(0), std::vector<Rank>{1});
  EXPECT_TRUE(one.admit_model(2, 1, 0));  // a round ahead
  EXPECT_FALSE(one.admit_model(2, 2, 0));
  EXPECT_FALSE(one.admit_model(1, 1, 0));  // round 0 comes first
  EXPECT_FALSE(one.admit_model(3, 0, 0));
  one.keep(2, model_in(1));
  EXPECT_TRUE(one.admit_model(1, 0, 0));
  EXPECT_FALSE(one.admit_model(1, 0, 0));
  one.keep(1, model_in(0));
  EXPECT_TRUE(one.missing(0).empty());
  EXPECT_EQ(one.take(1, 0).round, 0u);
  EXPECT_EQ(one.take(2, 0).round, 0u);
  EXPECT_EQ(one.missing(1), std::vector<Rank>{1});
}

// This worker enters in round 5; rank 1 is behind, rank 2 ahead.
TEST(Neighbours, AnEdgeCountsFromTheLaterRoundOfItsEnds) {
  Neighbours one;
  one.enter({{1, 0.5}, {2, 0.25}}, 5, false);
  EXPECT_TRUE(one.in(5).empty());
  EXPECT_EQ(one.missing(5), (std::vector<Rank>{1, 2}));
  EXPECT_FALSE(one.admit_model(1, 5, 5));  // it has not told its round
  EXPECT_TRUE(one.admit_join(1));
  one.join(1, 3);
  EXPECT_FALSE(one.admit_join(1));
  EXPECT_FALSE(one.admit_join(4));
  one.join(2, 8);
  EXPECT_EQ(one.in(5), std::vector<Rank>{1});
  EXPECT_EQ(one.missing(5), std::vector<Rank>{1});
  EXPECT_FALSE(one.admit_model(1, 4, 5));  // this worker has that round behind it
  EXPECT_TRUE(one.admit_model(1, 5, 5));
  one.keep(1, model_in(5));
  EXPECT_TRUE(one.missing(5).empty());
  // Rank 2's model of round 8 is early and waits; that of round 10 cannot be there yet.
  EXPECT_TRUE(one.admit_model(2, 8, 5));
  one.keep(2, model_in(8));
  EXPECT_TRUE(one.admit_model(2, 9, 5));
  EXPECT_FALSE(one.admit_model(2, 10, 5));
  EXPECT_EQ(one.in(8), (std::vector<Rank>{1, 2}));
  EXPECT_EQ(one.missing(8), std::vector<Rank>{1});
}

}  // namespace
}  // namespace longhaul::sync::gossip
