#include "longhaul/core/score_sum.h"

#include <gmock/gmock.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/machine_net.h"

namespace longhaul {
namespace {

using testing::MachineNet;

struct ScoreNet {
  explicit ScoreNet(std::uint32_t ranks, std::uint64_t seed = 1)
      : net({.ranks = ranks, .layout = Layout::flat(1), .seed = seed},
            [](const Place&) { return std::make_unique<ScoreSum>(); }) {}
  ScoreSum& at(Rank rank) { return static_cast<ScoreSum&>(net.machine(rank)); }
  // Rank r has 10 (r + 1) samples; of the model of round n its loss on them is n + r.
  static Evaluation part(Rank rank, Round round) {
    return {double(round) + rank, 1.0 / (rank + 1), 10 * (rank + 1u)};
  }
  void score(Rank rank, Round round) {
    net.act(rank, [&](Turn& t) { at(rank).scored(round, part(rank, round), t); });
  }
  void end(Rank rank) {
    net.act(rank, [&](Turn& t) { at(rank).scored(ScoreSum::kAtEnd, part(rank, 7), t); });
  }
  // All sums that a node has not taken.
  std::vector<std::pair<Round, double>> losses(Rank rank) {
    std::vector<std::pair<Round, double>> all;
    while (const auto sum = at(rank).take()) all.emplace_back(sum->round, sum->evaluation.loss);
    return all;
  }
  MachineNet net;
};

// Invariant 1: a sum is that of losses, hits and samples, and all nodes hear the same.
TEST(ScoreSum, AddsLossHitsAndSamplesOfAll) {
  ScoreNet net(3);
  for (const Rank rank : {2u, 0u, 1u}) net.score(rank, 4);
  net.net.run(100);
  for (Rank rank = 0; rank < 3; ++rank) {
    const auto sum = net.at(rank).take();
    ASSERT_TRUE(sum) << rank;
    EXPECT_EQ(sum->round, 4u);
    EXPECT_EQ(sum->senior, 0u);
    EXPECT_EQ(sum->evaluation.samples, 60u);
    EXPECT_DOUBLE_EQ(*sum->evaluation.accuracy, 30.0 / 60);
    EXPECT_DOUBLE_EQ(sum->evaluation.loss, (4.0 * 10 + 5 * 20 + 6 * 30) / 60);
    EXPECT_FALSE(net.at(rank).take());
  }
}

TEST(ScoreSum, HasNoAccuracyIfOnePartHasNone) {
  ScoreNet net(2);
  net.net.act(0, [&](Turn& t) { net.at(0).scored(4, {.loss = 4, .samples = 10}, t); });
  net.score(1, 4);
  net.net.run(100);
  for (Rank rank = 0; rank < 2; ++rank) {
    const auto sum = net.at(rank).take();
    ASSERT_TRUE(sum) << rank;
    EXPECT_FALSE(sum->evaluation.accuracy);
    EXPECT_DOUBLE_EQ(sum->evaluation.loss, (4.0 * 10 + 5 * 20) / 30);
  }
}

// The senior would fail with a sum that it cannot send.
TEST(ScoreSum, ASiteThatSaysTooManySamplesFailsNoOther) {
  ScoreNet net(3);
  net.net.act(1, [&](Turn& t) { net.at(1).scored(4, {5, 1, std::uint64_t(kMostSamples)}, t); });
  for (const Rank rank : {0u, 2u}) net.score(rank, 4);
  net.net.run(100);
  EXPECT_TRUE(net.net.failed.empty());
  const auto sum = net.at(2).take();
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->evaluation.samples, std::uint64_t(kMostSamples));
  EXPECT_NEAR(*sum->evaluation.accuracy, 1, 1e-9);
}

TEST(ScoreSum, ASiteWithoutSamplesCountsForNothing) {
  ScoreNet net(2);
  net.net.act(0, [&](Turn& t) {
    net.at(0).scored(0, {std::numeric_limits<double>::quiet_NaN(), 0, 0}, t);
  });
  net.score(1, 0);
  net.net.run(100);
  EXPECT_THAT(net.losses(1), ::testing::ElementsAre(std::pair(Round(0), 1.0)));
}

// Invariant 2: there is no sum before every live worker has said its part, and one then.
TEST(ScoreSum, WaitsForAllThatLive) {
  ScoreNet net(3);
  net.score(0, 0);
  net.score(1, 0);
  net.net.run(100);
  EXPECT_TRUE(net.losses(0).empty());
  net.net.crash(2);
  net.net.run(100);
  EXPECT_THAT(net.losses(1), ::testing::ElementsAre(std::pair(Round(0), 20.0 / 30)));
}

// Invariant 3: whoever dies, and whenever, each round that all who live have scored gets one sum.
TEST(ScoreSum, TheDeathOfAnyoneAtAnyTimeLosesNoRound) {
  for (std::uint64_t seed = 0; seed < testing::cases(500); ++seed) {
    ScoreNet net(4, seed);
    const Rank victim = Rank(seed % 4);
    for (Rank rank = 0; rank < 4; ++rank)
      if (rank != victim || seed % 3 == 0) net.score(rank, 0);
    for (std::uint64_t i = 0; i < seed / 4 % 8; ++i) net.net.step();
    net.net.crash(victim);
    net.net.run(1000);
    for (Rank rank = 0; rank < 4; ++rank)
      if (rank != victim) net.score(rank, 1);
    net.net.run(1000);
    for (Rank rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      const auto sums = net.losses(rank);
      ASSERT_FALSE(sums.empty()) << seed;
      EXPECT_EQ(sums.back().first, 1u) << seed;  // of round 0 a senior that died may have told some
      EXPECT_LE(sums.size(), 2u) << seed;
    }
    EXPECT_THAT(net.net.errors, ::testing::IsEmpty()) << seed;
  }
}

// Invariant 4: at the end every node has every part.
TEST(ScoreSum, AtTheEndAllHaveAllParts) {
  ScoreNet net(3);
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(net.at(0).ended(net.net.place(0), net.net.view(0)));
    net.end(rank);
    net.net.run(100);
  }
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(net.at(rank).ended(net.net.place(rank), net.net.view(rank)));
    EXPECT_EQ(ScoreSum::sum(net.at(rank).at_end()).samples, 60u);
  }
}

TEST(ScoreSum, ALostWorkerIsNotAwaitedAtTheEnd) {
  ScoreNet net(3);
  net.end(0);
  net.end(2);
  net.net.crash(1);
  net.net.run(100);
  EXPECT_TRUE(net.at(2).ended(net.net.place(2), net.net.view(2)));
  EXPECT_EQ(ScoreSum::sum(net.at(2).at_end()).samples, 40u);
}

TEST(ScoreSum, KeepsABoundedNumberOfRoundsThatOneNodeNeverScores) {
  ScoreNet net(2);
  for (Round round = 0; round < 2 * ScoreSum::kMostOpen; ++round) net.score(1, round);
  net.net.run(10000);
  Archive ar;
  net.at(0).state(ar);
  EXPECT_LT(ar.take().size(), 100 * ScoreSum::kMostOpen);
}

// One that has just returned is slower than the others; then it becomes the senior.
TEST(ScoreSum, AScoreThatComesAfterItsSumIsPassedOver) {
  ScoreNet net(2);
  Message message = longhaul::testing::message_of(ScoreSum::Total{{5, 0.5, 0, 10}});
  ASSERT_TRUE(net.net.inject(0, 1, message));
  net.score(1, 5);
  net.net.crash(0);
  net.net.run(100);
  EXPECT_EQ(net.losses(1).size(), 1u);
  net.score(1, 6);
  net.net.run(100);
  EXPECT_EQ(net.losses(1).size(), 1u) << "a new one";
}

// It has passed the rounds before with the models of the others.
TEST(ScoreSum, AReturnedWorkerIsAwaitedFromTheFirstRoundThatItScores) {
  ScoreNet net(3);
  net.net.crash(2);
  net.net.run(100);
  net.net.come_back(2);
  net.net.run(100);
  net.score(0, 5);
  net.score(2, 6);
  net.net.run(100);
  net.score(1, 5);
  net.net.run(100);
  EXPECT_EQ(net.losses(1).size(), 1u) << "round 5, without rank 2";
  for (const Rank rank : {0u, 1u}) net.score(rank, 6);
  net.net.run(100);
  EXPECT_EQ(net.losses(1), (std::vector<std::pair<Round, double>>{{6, (60. + 140 + 240) / 60}}));
  for (const Rank rank : {0u, 1u}) net.score(rank, 7);
  net.net.run(100);
  EXPECT_TRUE(net.losses(1).empty()) << "rank 2 is awaited";
}

TEST(ScoreSum, TakesASumOfTheSeniorAlone) {
  ScoreNet net(3);
  Message message = longhaul::testing::message_of(ScoreSum::Total{{1000, 0, 0, 0}});
  EXPECT_FALSE(net.net.inject(1, 2, message));
  for (Rank rank = 0; rank < 3; ++rank) net.score(rank, 0);  // else it would be one of before
  net.net.run(100);
  EXPECT_EQ(net.losses(2).size(), 1u);
}

TEST(ScoreSum, RefusesASumOfTheEnd) {
  ScoreNet net(2);
  Message message = longhaul::testing::message_of(ScoreSum::Total{{ScoreSum::kAtEnd, 0, 0, 0}});
  EXPECT_FALSE(net.net.inject(1, 0, message));
}

}  // namespace
}  // namespace longhaul
