#include "longhaul/overlay/rate_planner.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"

#include <initializer_list>

namespace longhaul::overlay::forest {
namespace {

using Verdict = PlanTrial::Verdict;

Verdict round_of(PlanTrial& trial, Round since, double took_s) {
  trial.enter(since);
  return trial.on_round(took_s);
}

// A trial of the plan that comes in force in round 5; the rounds by the one before took so long.
PlanTrial trial_after(std::initializer_list<double> took_s) {
  PlanTrial trial;
  for (const double one : took_s) EXPECT_EQ(round_of(trial, 0, one), Verdict::none);
  trial.propose(5);
  EXPECT_TRUE(trial.under_way());
  return trial;
}

// The verdict, and after how many rounds it came.
using Ends = std::pair<Verdict, int>;
Ends judged(PlanTrial trial, std::initializer_list<double> took_s) {
  int rounds = 0;
  for (const double one : took_s) {
    ++rounds;
    const Verdict verdict = round_of(trial, 5, one);
    if (verdict == Verdict::none) continue;
    EXPECT_FALSE(trial.under_way());
    return {verdict, rounds};
  }
  EXPECT_TRUE(trial.under_way());
  return {Verdict::none, rounds};
}

TEST(PlanTrial, F31_OneRoundTellsWhatIsClearAndThreeTheRest) {
  const PlanTrial trial = trial_after({1, 1});
  EXPECT_EQ(judged(trial, {1.2}), Ends(Verdict::worse, 1));
  EXPECT_EQ(judged(trial, {0.9}), Ends(Verdict::kept, 1));
  EXPECT_EQ(judged(trial, {1.05, 1.05}), Ends(Verdict::none, 2));
  EXPECT_EQ(judged(trial, {1.05, 1.05, 1.05}), Ends(Verdict::worse, 3));
  EXPECT_EQ(judged(trial, {1.01, 1.01, 1.01}), Ends(Verdict::kept, 3));
}

// A connection that rests makes a round longer, whatever the plan.
TEST(PlanTrial, F31_WhatHeldOneRoundUpDoesNotCount) {
  const PlanTrial rested_before = trial_after({1, 1.3});
  EXPECT_EQ(judged(rested_before, {1.2}), Ends(Verdict::worse, 1)) << "the quicker of two counts";
  EXPECT_EQ(judged(trial_after({1, 1}), {1.05, 1.3, 1.0}), Ends(Verdict::kept, 3));
  EXPECT_EQ(judged(trial_after({0.5, 1, 1}), {1.01, 1.01, 1.01}), Ends(Verdict::kept, 3))
      << "the last two rounds, or the network may have been another one";
}

TEST(PlanTrial, RoundsByThePlanBeforeGoOnUntilTheOtherIsInForce) {
  PlanTrial trial = trial_after({1, 1});
  EXPECT_EQ(round_of(trial, 0, 2), Verdict::none);
  EXPECT_EQ(round_of(trial, 0, 2), Verdict::none);
  EXPECT_EQ(judged(trial, {1.5}), Ends(Verdict::kept, 1)) << "they are what it is held against";
}

// A second plan may be on its way before the first is in force.
TEST(PlanTrial, TheLastOfSeveralIsTriedAgainstTheQuickest) {
  for (const double first : {2.0, 0.5}) {
    PlanTrial trial;
    round_of(trial, 0, 1);
    trial.propose(3);
    trial.propose(5);
    EXPECT_FALSE(trial.enter(3)) << "that is the plan to go back to anyway";
    EXPECT_EQ(trial.on_round(first), Verdict::none) << "not the last";
    EXPECT_TRUE(trial.running());
    EXPECT_EQ(trial.enter(5), first < 1);
    EXPECT_EQ(judged(trial, {0.9}), Ends(first < 1 ? Verdict::worse : Verdict::kept, 1));
    EXPECT_EQ(judged(trial, {1.2}), Ends(Verdict::worse, 1));
  }
}

TEST(PlanTrial, ARoundOfWhichNobodyKnowsSaysNothing) {
  EXPECT_EQ(judged(trial_after({1, 1}), {0, 0, 0, 1.2}), Ends(Verdict::worse, 4));
  EXPECT_EQ(judged(trial_after({1, 1}), {0, 0, 0, 0, 0, 0, 0, 0}), Ends(Verdict::kept, 8));
  EXPECT_EQ(judged(trial_after({}), {5}), Ends(Verdict::kept, 1)) << "nothing to hold it against";
}

// One that tries a pair was on its way before it.
TEST(PlanTrial, AnotherThatComesInForceBeforeIsNotTaken) {
  PlanTrial trial = trial_after({1, 1});
  EXPECT_FALSE(trial.enter(4));
  EXPECT_EQ(trial.on_round(9), Verdict::none);
  EXPECT_FALSE(trial.running());
  EXPECT_EQ(judged(trial, {12}), Ends(Verdict::worse, 1)) << "held against the one before it";
}

TEST(PlanTrial, APlanThatBecomesSlowShowsIt) {
  PlanTrial trial;
  for (int i = 0; i < 2; ++i) round_of(trial, 0, 1);
  EXPECT_FALSE(trial.slower(0.2));
  round_of(trial, 0, 1.5);
  EXPECT_FALSE(trial.slower(0.2)) << "one round may be held up";
  round_of(trial, 0, 1.3);
  EXPECT_TRUE(trial.slower(0.2));
  EXPECT_FALSE(trial.slower(0.4));
  round_of(trial, 5, 1.5);
  EXPECT_FALSE(trial.slower(0)) << "another plan has its own times";
}

TEST(PlanTrial, SavingAndLoadingEqualsGoingOn) {
  PlanTrial trial = trial_after({1, 1.3});
  EXPECT_EQ(round_of(trial, 5, 1.05), Verdict::none);
  PlanTrial loaded;
  ASSERT_TRUE(longhaul::testing::copy_state(trial, loaded));
  EXPECT_EQ(judged(loaded, {1.05, 1.05}), Ends(Verdict::worse, 2));
}

}  // namespace
}  // namespace longhaul::overlay::forest
