#include "longhaul/core/stop_rule.h"

#include <gtest/gtest.h>

#include "longhaul/core/testing/machine_net.h"

namespace longhaul {
namespace {

using testing::MachineNet;
using Step = StopRule::Step;

struct StopNet {
  StopNet(StopConfig config, std::uint32_t ranks, std::uint64_t seed)
      : net({.ranks = ranks, .layout = Layout::flat(2), .seed = seed},
            [config](const Place&) { return std::make_unique<StopRule>(config); }) {}
  StopRule& at(Rank rank) { return static_cast<StopRule&>(net.machine(rank)); }
  void done(Rank rank, Round round, std::uint64_t samples = 0) {
    const std::vector<float> model{float(round), 1};
    net.act(rank, [&](Turn& t) { at(rank).round_done(round, model, samples, t); });
  }
  void score(Rank rank, Round round, double accuracy) {
    net.act(rank, [&](Turn& t) { at(rank).on_scored(round, {.accuracy = accuracy}, t); });
  }
  MachineNet net;
};

TEST(StopRule, AVerdictTakesEffectLagRoundsLaterAndIsAwaited) {
  StopNet net({.target_accuracy = 0.9, .max_rounds = 100, .report_every = 1, .lag = 1}, 3, 1);
  for (Rank rank = 0; rank < 3; ++rank) net.done(rank, 0);
  EXPECT_EQ(net.at(1).after(0), Step::go_on);
  for (Rank rank = 0; rank < 3; ++rank) net.done(rank, 1);
  EXPECT_EQ(net.at(1).after(1), Step::wait);
  net.score(0, 0, 0.95);
  net.net.run(100);
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(net.at(rank).after(1), Step::stop);
    EXPECT_EQ(net.at(rank).reason(), StopRule::Reason::target);
  }
}

TEST(StopRule, OnlyEveryKthRoundIsReported) {
  StopNet net({.target_accuracy = 0.9, .max_rounds = 100, .report_every = 3, .lag = 1}, 2, 1);
  for (Round round = 0; round < 3; ++round) {
    for (Rank rank = 0; rank < 2; ++rank) net.done(rank, round);
    EXPECT_EQ(net.at(1).after(round), Step::go_on) << round;
  }
  for (Rank rank = 0; rank < 2; ++rank) net.done(rank, 3);
  EXPECT_EQ(net.at(1).after(3), Step::wait);
  net.score(0, 2, 0.5);
  net.net.run(100);
  EXPECT_EQ(net.at(1).after(3), Step::go_on);
}

TEST(StopRule, MaxRoundsAndMaxSamplesNeedNobody) {
  StopNet rounds({.max_rounds = 2, .report_every = 10}, 1, 1);
  rounds.done(0, 0);
  EXPECT_EQ(rounds.at(0).after(0), Step::go_on);
  rounds.done(0, 1);
  EXPECT_EQ(rounds.at(0).after(1), Step::stop);
  EXPECT_EQ(rounds.at(0).reason(), StopRule::Reason::max_rounds);
  StopNet samples({.max_rounds = 50, .max_samples = 64, .report_every = 10}, 1, 1);
  samples.done(0, 0, 63);
  EXPECT_EQ(samples.at(0).after(0), Step::go_on);
  samples.done(0, 1, 64);
  EXPECT_EQ(samples.at(0).after(1), Step::stop);
  EXPECT_EQ(samples.at(0).reason(), StopRule::Reason::max_samples);
}

// Whoever follows a dead reporter must not overrule a verdict that somebody has acted on.
// Nodes that wait for neighbours alone may be many rounds behind the reporter.
TEST(StopRule, VerdictsFarAheadOfANodeAreKeptUntilItNeedsThem) {
  StopNet net({.target_accuracy = 0.9, .max_rounds = 100, .lag = 1, .apart = 5}, 2, 1);
  net.done(1, 0);
  for (Round round = 0; round <= 5; ++round) {
    net.done(0, round);
    net.score(0, round, round == 5 ? 1 : 0);
    net.net.run(100);
  }
  for (Round round = 1; round <= 5; ++round) {
    EXPECT_EQ(net.at(1).after(round), Step::go_on) << round;
    net.done(1, round);
  }
  EXPECT_EQ(net.at(1).after(6), Step::stop);
  EXPECT_EQ(net.at(1).reason(), StopRule::Reason::target);
}

TEST(StopRule, WhereCountsDifferTheReportersEndsTheRun) {
  StopNet net({.max_rounds = 100, .max_samples = 10, .lag = 1, .reporter_counts = true}, 2, 1);
  net.done(0, 0, 12);
  net.done(1, 0, 3);
  for (const Rank rank : {0u, 1u}) EXPECT_EQ(net.at(rank).after(0), Step::go_on);
  net.score(0, 0, 0.5);
  net.net.run(100);
  for (const Rank rank : {0u, 1u}) {
    net.done(rank, 1, 3);
    EXPECT_EQ(net.at(rank).after(1), Step::stop);
    EXPECT_EQ(net.at(rank).reason(), StopRule::Reason::max_samples);
  }
}

TEST(StopRule, AVerdictSurvivesItsReporter) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    StopNet net({.target_accuracy = 0.9, .max_rounds = 100, .report_every = 1, .lag = 1}, 4, seed);
    for (Rank rank = 0; rank < 4; ++rank) net.done(rank, 0);
    net.score(0, 0, 0.95);
    for (std::uint64_t i = 0; i < seed % 4; ++i) net.net.step();
    std::vector<Rank> knew;
    for (Rank rank = 1; rank < 4; ++rank) {
      net.done(rank, 1);
      if (net.at(rank).after(1) == Step::stop) knew.push_back(rank);
    }
    net.net.crash(0);
    net.net.run(1000);
    net.score(1, 0, 0.1);  // another score: of no effect if the old verdict was known to anybody
    net.net.run(1000);
    const Step first = net.at(1).after(1);
    EXPECT_NE(first, Step::wait) << "seed " << seed;
    for (Rank rank = 2; rank < 4; ++rank) EXPECT_EQ(net.at(rank).after(1), first) << seed;
    EXPECT_TRUE(knew.empty() || first == Step::stop) << seed;
  }
}

// A second loss while the new reporter asks: it asks anew, and everybody answers again.
TEST(StopRule, ASecondLossWhileTheReporterAsks) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    StopNet net({.target_accuracy = 0.9, .max_rounds = 100, .report_every = 1, .lag = 1}, 5, seed);
    for (Round round = 0; round < 2; ++round)
      for (Rank rank = 0; rank < 5; ++rank) net.done(rank, round);
    net.net.crash(0);
    for (std::uint64_t i = 0; i < seed % 8; ++i) net.net.step();
    const Rank second = 1 + Rank(seed % 2);
    const Rank reporter = second == 1 ? 2 : 1;
    net.net.crash(second);
    net.net.run(1000);
    net.score(reporter, 0, 0.95);
    net.net.run(1000);
    for (Rank rank = reporter; rank < 5; ++rank)
      if (net.net.alive(rank)) EXPECT_EQ(net.at(rank).after(1), Step::stop) << seed;
  }
}

TEST(StopRule, RefusesAVerdictThatIsNotDue) {
  StopNet net({.report_every = 2, .lag = 1}, 2, 1);
  net.done(1, 0);
  for (Round round : {Round(1000), Round(2)}) {
    Message message =
        longhaul::testing::message_of(StopRule::Verdict{round, StopRule::Reason::target});
    EXPECT_FALSE(net.net.inject(0, 1, message)) << round;
  }
}

// Who is not the reporter ends no run, nor with what only a new reporter asks for.
TEST(StopRule, TakesVerdictsOfTheReporterAlone) {
  StopNet net({.max_rounds = 100, .lag = 1}, 3, 1);
  const StopRule::Verdict verdict{0, StopRule::Reason::target};
  for (Rank rank = 0; rank < 3; ++rank)
    for (const Round round : {0u, 1u}) net.done(rank, round);
  for (const Rank to : {0u, 1u})
    EXPECT_FALSE(net.net.inject(2, to, longhaul::testing::message_of(verdict))) << to;
  EXPECT_TRUE(net.net.inject(2, 0, longhaul::testing::message_of(StopRule::Known{0, {verdict}})));
  for (const Rank rank : {0u, 1u}) EXPECT_EQ(net.at(rank).after(1), Step::wait) << rank;
  EXPECT_TRUE(net.net.inject(0, 1, longhaul::testing::message_of(verdict)));
  EXPECT_EQ(net.at(1).after(1), Step::stop);
}

TEST(StopRule, RefusesMoreVerdictsThanANodeKeeps) {
  StopNet net({.report_every = 2, .lag = 1}, 2, 1);
  net.done(0, 0);
  for (const std::size_t count : {3u, 4u}) {
    Message message;
    message.kind = StopRule::Known::kKind;
    const std::vector<StopRule::Verdict> verdicts(count, {1, StopRule::Reason::none});
    message.head = Payload(share(to_wire(StopRule::Known{0, verdicts})));
    EXPECT_EQ(bool(net.net.inject(1, 0, message)), count == 3) << count;
  }
}

}  // namespace
}  // namespace longhaul
