// The state server's rule, with a clock in the test's hand.
#include "longhaul/sync/esync_reach.h"

#include <cmath>

#include <gtest/gtest.h>

namespace longhaul::sync::esync {
namespace {

const ReachTime::Config kPublic{.margin_s = 0.5, .lease = 1, .smoothing = 1, .with_push = false};

// Workers of constant step times that ask without delay, as the rule's own answers drive them: how
// many steps each takes in a round, and when it gives its update.
struct Rounds {
  Rounds(const ReachTime::Config& config, std::vector<double> step_s,
         std::vector<double> push_s = {})
      : reach(config), step_s(std::move(step_s)), push_s(std::move(push_s)) {
    this->push_s.resize(this->step_s.size());
    std::set<Rank> all;
    for (Rank r = 0; r < this->step_s.size(); ++r) all.insert(r);
    reach.members(all);
  }
  void run(Round round, double start) {
    taken.assign(step_s.size(), 0);
    gave.assign(step_s.size(), -1);
    std::vector<double> asks(step_s.size(), start + shift);
    for (;;) {
      Rank next = 0;
      for (Rank r = 0; r < asks.size(); ++r)
        if (gave[next] >= 0 || (gave[r] < 0 && asks[r] < asks[next])) next = r;
      if (gave[next] >= 0) return;
      const Standing asked{round, taken[next], 0, step_s[next], push_s[next]};
      reach.ask(next, asked, asks[next], asks[next]);
      const std::uint32_t more = reach.answer(next, asks[next]).value();
      if (more == 0) gave[next] = asks[next] - shift;
      taken[next] += more;
      asks[next] += more * step_s[next];
    }
  }

  ReachTime reach;
  std::vector<double> step_s, push_s;
  double shift = 0;  // of the state server's clock
  std::vector<std::uint32_t> taken;
  std::vector<double> gave;
};

TEST(ReachTime, Inv2And3_PublicStepsAreThoseThatFitBeforeTheSlowest) {
  Rounds rounds(kPublic, {0.25, 4, 0.5, 3.75});
  for (Round round = 0; round < 4; ++round) {
    rounds.run(round, 10.0 * double(round));
    EXPECT_EQ(rounds.taken[1], 1u);
    for (const Rank r : {0u, 2u, 3u}) {
      const double c = rounds.step_s[r];
      EXPECT_EQ(rounds.taken[r], std::max(1.0, std::floor((4 - 0.5) / c))) << r;
      if (r == 3) continue;
      EXPECT_LT(10.0 * double(round) + 4 - rounds.gave[r], c + 0.5) << "idle before the slowest";
    }
  }
}

// Inv. 1 and 4: every worker takes one; workers of one speed take one.
TEST(ReachTime, Inv1_EveryWorkerTakesAStep) {
  Rounds rounds(kPublic, {1, 1, 1});
  for (Round round = 0; round < 3; ++round) {
    rounds.run(round, 10.0 * double(round));
    EXPECT_EQ(rounds.taken, (std::vector<std::uint32_t>{1, 1, 1}));
  }
}

TEST(ReachTime, Inv6_TheClockMayStandAnywhere) {
  std::vector<std::vector<std::uint32_t>> all;
  for (const double shift : {0.0, 1e6}) {
    Rounds rounds(kPublic, {0.25, 4, 0.5});
    rounds.shift = shift;
    rounds.run(0, 0);
    rounds.run(1, 10);
    all.push_back(rounds.taken);
  }
  EXPECT_EQ(all[0], all[1]);
}

TEST(ReachTime, Inv9_UpdatesReachTheServerTogether) {
  Rounds rounds({.margin_s = 0.01}, {0.1, 4, 0.5}, {2.0, 3.0, 0.0});
  rounds.run(0, 0);
  rounds.run(1, 20);
  for (Rank r = 0; r < 3; ++r) {
    const double arrives = rounds.gave[r] + rounds.push_s[r];
    EXPECT_LE(arrives, 20 + 7 + 1e-9) << r;
    EXPECT_GT(arrives, 20 + 7 - 0.5 - 0.02) << r;
  }
  const std::vector<std::uint32_t> before = rounds.taken;
  rounds.push_s[0] = 4.0;  // a slower uplink: it is sent off earlier
  rounds.run(2, 40);
  rounds.run(3, 60);
  EXPECT_LT(rounds.taken[0], before[0]);
  EXPECT_EQ(rounds.taken[2], before[2]);
}

// One slow step of a fast worker does not make it the slowest for longer than it is smoothed.
TEST(ReachTime, Inv10_OneHiccupCostsOneRound) {
  Rounds rounds({.margin_s = 0.1}, {0.5, 4});
  rounds.run(0, 0);
  rounds.run(1, 10);
  EXPECT_EQ(rounds.taken, (std::vector<std::uint32_t>{7, 1}));
  rounds.step_s[0] = 9;
  rounds.run(2, 20);
  rounds.step_s[0] = 0.5;
  rounds.run(3, 40);
  rounds.run(4, 60);
  EXPECT_EQ(rounds.taken, (std::vector<std::uint32_t>{7, 1}));
}

// Without the slowest the next slowest is.
TEST(ReachTime, ALostWorkerIsNotWaitedFor) {
  Rounds rounds(kPublic, {0.25, 4, 2});
  rounds.run(0, 0);
  rounds.reach.members({0, 2});
  const auto ask = [&](Rank r, Round round, std::uint32_t steps, double at) {
    rounds.reach.ask(r, {round, steps, 0, rounds.step_s[r], 0}, at, at);
    return rounds.reach.answer(r, at).value();
  };
  EXPECT_EQ(ask(0, 1, 0, 10), 1u);
  EXPECT_EQ(ask(2, 1, 0, 10), 1u);
  std::uint32_t steps = 1;
  double at = 10.25;
  while (ask(0, 1, steps, at) > 0) ++steps, at += 0.25;
  EXPECT_EQ(steps, 6u) << "until 0.5 s before 12";
}

// Who is not known yet may be the slowest: the answer waits for it until the steps granted so far
// are done, less the time that it is under way; then another step fits in any case.
TEST(ReachTime, AnAnswerWaitsForWhoeverHasNotBegun) {
  ReachTime reach({.lease = 16});
  reach.members({0, 1});
  reach.ask(0, {0, 1, 1, 0.5, 0}, 0.9, 1);
  EXPECT_EQ(reach.answer(0, 1), std::nullopt);
  EXPECT_DOUBLE_EQ(reach.due(0).value(), 1 + 0.5 - 0.1);
  EXPECT_EQ(reach.answer(0, 1.41), 1u);
  reach.ask(0, {0, 2, 1, 0.5, 0}, 1.5, 1.6);
  EXPECT_EQ(reach.answer(0, 1.6), std::nullopt);
  reach.ask(1, {0, 1, 1, 9, 0}, 1.7, 1.7);
  EXPECT_EQ(reach.answer(0, 1.7), 16u) << "a whole lease, as the slowest arrives at 10.7";
  EXPECT_EQ(reach.answer(1, 1.7), 0u) << "the slowest takes one step";
  // The next round: the slowest is known, but has not begun it.
  reach.ask(0, {1, 1, 1, 0.5, 0}, 20, 20);
  EXPECT_EQ(reach.answer(0, 20), std::nullopt);
  reach.ask(1, {1, 1, 1, 0.5, 0}, 20.1, 20.1);
  EXPECT_EQ(reach.answer(0, 20.1), 8u);
}

}  // namespace
}  // namespace longhaul::sync::esync
