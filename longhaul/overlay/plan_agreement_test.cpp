#include "longhaul/overlay/plan_agreement.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"

namespace longhaul::overlay::forest {
namespace {

const std::vector<Rank> kMembers = {2, 3, 5};

Tree star(std::uint16_t root) {
  return {root, std::vector<std::uint32_t>(3, root), std::vector<std::uint32_t>(3, root)};
}
const SitePlan kFirst = {{{star(2), 1}}, 1};
const SitePlan kOne = {{{star(0), 1}}, 0.5};
const SitePlan kTwo = {{{star(1), 0.25}, {star(2), 0.75}}, 1};

PlanAgreement beginner(Rank self) {
  PlanAgreement one;
  one.new_team(1, self, kMembers, 3);
  return one;
}

// All have acknowledged kFirst, and this one is in round `given`.
PlanAgreement node(Rank self, std::optional<Round> given = 4) {
  PlanAgreement one = beginner(self);
  NewPlan first = to_message(kFirst);
  first.version = 1;
  if (self == 2) {
    EXPECT_EQ(digest_of(one.propose_first(kFirst)), digest_of(first));
  } else {
    EXPECT_TRUE(one.take(2, first));
  }
  for (const Rank other : {3u, 5u})
    if (other != self) EXPECT_TRUE(one.take(other, PlanAck{1, digest_of(first)}));
  if (given) one.on_contributed(*given);
  return one;
}

// A team whose messages the test carries; the planner is 2.
struct Trio {
  PlanAgreement planner = node(2), second = node(3), third = node(5);
};

std::string text(const Status& status) { return status ? "" : status.error().what; }
template <class T>
std::string text(const Result<T>& result) {
  return result ? "" : result.error().what;
}

// Nobody gives anything before all have told that they have the first plan, in whatever round.
TEST(PlanAgreement, F30_AllHaveTheFirstPlanBeforeAnybodyBegins) {
  PlanAgreement planner = beginner(2), second = beginner(3), third = beginner(5);
  for (const PlanAgreement* one : {&planner, &second}) {
    EXPECT_EQ(one->hold(7), "the plan of rank 2");
    EXPECT_EQ(one->hold_of_first(), "the plan of rank 2");
    EXPECT_FALSE(one->first());
  }
  EXPECT_TRUE(planner.lacks_first());
  EXPECT_FALSE(second.lacks_first()) << "it does not plan";
  const NewPlan plan = planner.propose_first(kFirst);
  EXPECT_FALSE(planner.lacks_first());
  const PlanAck two = *second.take(2, plan);
  EXPECT_EQ(second.hold(7), "plan 1: acknowledgements of rank 5");
  const PlanAck three = *third.take(2, plan);
  ASSERT_TRUE(second.take(5, three));
  ASSERT_TRUE(planner.take(3, two));
  EXPECT_EQ(planner.hold_of_first(), "plan 1: acknowledgements of rank 5");
  ASSERT_TRUE(planner.take(5, three));
  for (PlanAgreement* one : {&planner, &second}) {
    EXPECT_FALSE(one->hold(7));
    EXPECT_FALSE(one->hold_of_first());
    one->on_contributed(7);
    EXPECT_EQ(one->since(7), 0u);
    EXPECT_EQ(one->first()->trees[0].tree.root, 2u);
  }
  EXPECT_TRUE(planner.may_propose());
}

TEST(PlanAgreement, F30_OfOneMemberNothingIsAwaited) {
  PlanAgreement alone;
  alone.new_team(1, 4, {4}, 1);
  const NewPlan plan = alone.propose_first({{{{0, {0}, {0}}, 1}}, 1});
  EXPECT_FALSE(alone.hold(0));
  EXPECT_EQ(plan.trees.size(), 1u);
  PlanAgreement nobody;
  nobody.new_team(1, 4, {}, 0);
  EXPECT_FALSE(nobody.hold(0));
  EXPECT_FALSE(nobody.hold_of_first());
}

TEST(PlanAgreement, F30_AFirstPlanThatIsNoneIsRefused) {
  NewPlan plan = to_message(kFirst);
  plan.version = 1;
  PlanAgreement one = beginner(3);
  NewPlan late = plan;
  late.start = 6;
  EXPECT_EQ(text(one.take(2, late)), "plan 1 of rank 2: it cannot start in round 6");
  NewPlan other = to_message({{{star(0), 0.5}}, 1});
  other.version = 1;
  EXPECT_EQ(text(one.take(2, other)), "plan 1 of rank 2: shares do not add up to 1");
  EXPECT_EQ(text(one.take(5, plan)), "plan 1 of rank 5: it is not the planner");
  EXPECT_TRUE(one.take(2, plan));
}

// Nobody gives a part to the round before the plan's first until all have told that they have it.
TEST(PlanAgreement, F16_AllHaveAPlanBeforeAnybodyCanBeginIt) {
  Trio t;
  const NewPlan plan = *t.planner.propose(kOne);
  EXPECT_EQ(plan.start, 6u) << "4 is under way here, and 5 may be elsewhere";
  EXPECT_FALSE(t.planner.may_propose());
  EXPECT_FALSE(t.planner.hold(4));
  EXPECT_EQ(t.planner.hold(5), "plan 2: acknowledgements of ranks 3, 5");
  const PlanAck second = *t.second.take(2, plan), third = *t.third.take(2, plan);
  EXPECT_EQ(t.second.hold(5), "plan 2: acknowledgements of rank 5");
  ASSERT_TRUE(t.second.take(5, third));
  EXPECT_FALSE(t.second.hold(5));
  ASSERT_TRUE(t.planner.take(3, second));
  EXPECT_TRUE(t.planner.hold(5)) << "one has not told";
  ASSERT_TRUE(t.planner.take(5, third));
  EXPECT_FALSE(t.planner.hold(5));
  EXPECT_FALSE(t.planner.may_propose()) << "it would start when this one does";
  t.planner.on_contributed(5);
  EXPECT_TRUE(t.planner.may_propose());
  ASSERT_TRUE(t.third.take(3, second));
}

// The plan before goes for all rounds before, at all alike, and as long as anybody may need it.
TEST(PlanAgreement, F17_APlanGoesFromItsFirstRoundOn) {
  Trio t;
  const NewPlan first = *t.planner.propose(kOne);
  const PlanAck second = *t.second.take(2, first), third = *t.third.take(2, first);
  for (const auto& [ack, from] : {std::pair{second, 3u}, {third, 5u}})
    ASSERT_TRUE(t.planner.take(from, ack));
  ASSERT_TRUE(t.second.take(5, third));
  for (PlanAgreement* one : {&t.planner, &t.second}) {
    EXPECT_EQ(one->since(5), 0u);
    EXPECT_EQ(one->since(6), 6u);
    EXPECT_EQ(one->plan(6).trees[0].tree.root, 0u);
    EXPECT_EQ(one->plan(6).lag, 0.5);
  }
  t.planner.on_contributed(5);
  t.second.on_contributed(5);
  const NewPlan next = *t.planner.propose(kTwo);
  EXPECT_EQ(next.start, 7u);
  const PlanAck again = *t.second.take(2, next), last = *t.third.take(2, next);
  ASSERT_TRUE(t.second.take(5, last));
  t.second.on_contributed(6);
  t.second.on_contributed(7);
  EXPECT_EQ(t.second.since(6), 6u) << "the others may still be in 6";
  EXPECT_EQ(t.second.plan(6).trees.size(), 1u);
  EXPECT_EQ(t.second.since(9), 7u);
  EXPECT_EQ(t.second.plan(7).trees[1].share, 0.75);
  EXPECT_EQ(again.version, 3u);
}

// An acknowledgement may overtake the plan.
TEST(PlanAgreement, AnAcknowledgementMayComeBeforeThePlan) {
  Trio t;
  const NewPlan plan = *t.planner.propose(kOne);
  const PlanAck third = *t.third.take(2, plan);
  ASSERT_TRUE(t.second.take(5, third));
  ASSERT_TRUE(t.second.take(2, plan));
  EXPECT_FALSE(t.second.hold(5));
}

TEST(PlanAgreement, F18_AnotherPlanToEachIsFound) {
  Trio t;
  const NewPlan plan = *t.planner.propose(kOne);
  NewPlan other = to_message(kTwo);
  other.version = 2;
  other.start = plan.start;
  const PlanAck second = *t.second.take(2, plan), third = *t.third.take(2, other);
  EXPECT_EQ(text(t.second.take(5, third)),
            "acknowledgement of plan 2 by rank 5: it is not the one that rank 2 sent here");
  EXPECT_TRUE(t.second.hold(5)) << "nobody goes on with it";
  PlanAgreement early = node(5);
  ASSERT_TRUE(early.take(3, second));
  EXPECT_EQ(text(early.take(2, other)), "plan 2 of rank 2: rank 3 was sent another one");
  EXPECT_EQ(early.version(), 1u);
}

TEST(PlanAgreement, F19_UntimelyPlansAreRefused) {
  Trio t;
  const NewPlan plan = *t.planner.propose(kOne);
  EXPECT_FALSE(t.planner.take(3, plan)) << "to the planner";
  EXPECT_EQ(text(t.second.take(5, plan)), "plan 2 of rank 5: it is not the planner");
  PlanAgreement fresh = node(3, std::nullopt);
  EXPECT_EQ(text(fresh.take(2, plan)), "plan 2 of rank 2: it cannot start in round 6");
  for (const Round start : {Round{1}, Round{4}, Round{8}, ~Round{0}}) {
    NewPlan untimely = plan;
    untimely.start = start;
    EXPECT_FALSE(t.second.take(2, untimely)) << start;
  }
  ASSERT_TRUE(t.second.take(2, plan));
  EXPECT_EQ(text(t.second.take(2, plan)), "plan 2 of rank 2: not the next one");
  NewPlan next = plan;
  next.version = 3;
  EXPECT_EQ(text(t.second.take(2, next)),
            "plan 3 of rank 2: a plan that starts no later than the one before it");
  EXPECT_EQ(t.second.version(), 2u);
}

TEST(PlanAgreement, F19_UntimelyAcknowledgementsAreRefused) {
  Trio t;
  const PlanAck none{2, 7};
  EXPECT_FALSE(t.planner.take(3, none)) << "of nothing";
  const NewPlan plan = *t.planner.propose(kOne);
  const PlanAck ack = *t.second.take(2, plan);
  EXPECT_FALSE(t.planner.take(4, ack)) << "of no member";
  EXPECT_FALSE(t.second.take(2, ack)) << "of the planner";
  EXPECT_FALSE(t.planner.take(3, PlanAck{3, ack.digest}));
  ASSERT_TRUE(t.planner.take(3, ack));
  EXPECT_FALSE(t.planner.take(3, ack)) << "again";
}

TEST(PlanAgreement, F20_WhatIsNoPlanIsRefused) {
  EXPECT_TRUE(from_message(to_message(kTwo), 3));
  EXPECT_FALSE(from_message(to_message(kTwo), 4)) << "of other sites";
  EXPECT_FALSE(from_message({}, 3));
  const auto spoilt = [](auto&& spoil) {
    NewPlan plan = to_message(kTwo);
    spoil(plan.trees[0]);
    return text(from_message(plan, 3));
  };
  EXPECT_NE(spoilt([](PlannedTree& t) { t.root = 3; }), "");
  EXPECT_NE(spoilt([](PlannedTree& t) { t.reduce_to[0] = 9; }), "");
  EXPECT_NE(spoilt([](PlannedTree& t) { t.reduce_to = {2, 1, 0}; }), "") << "a circle";
  EXPECT_NE(spoilt([](PlannedTree& t) { t.spread_from.pop_back(); }), "");
  EXPECT_NE(spoilt([](PlannedTree& t) { t.share = 0.5; }), "");
  EXPECT_NE(spoilt([](PlannedTree& t) { t.share = 0.25 + 1e-5; }), "");
  NewPlan hollow = to_message(kOne);
  hollow.trees.push_back(hollow.trees[0]);
  hollow.trees[1].share = 0;
  EXPECT_EQ(text(from_message(hollow, 3)), "a tree without a share");
}

TEST(PlanAgreement, SavingAndLoadingEqualsGoingOn) {
  Trio t;
  const NewPlan plan = *t.planner.propose(kTwo);
  ASSERT_TRUE(t.planner.take(3, *t.second.take(2, plan)));
  PlanAgreement loaded;
  ASSERT_TRUE(longhaul::testing::copy_state(t.planner, loaded));
  EXPECT_EQ(loaded.hold(5), "plan 2: acknowledgements of rank 5");
  EXPECT_EQ(digest_of(to_message(loaded.plan(6))), digest_of(to_message(kTwo)));
  ASSERT_TRUE(loaded.take(5, *t.third.take(2, plan)));
  loaded.on_contributed(5);
  EXPECT_TRUE(loaded.may_propose());
}

TEST(PlanAgreement, WhatIsTooLargeIsNotSent) {
  PlanAgreement planner = node(2);
  SitePlan many = kOne;
  many.trees.assign(kMostTrees + 1, {star(0), 1.0 / (kMostTrees + 1)});
  EXPECT_FALSE(planner.propose(many));
  EXPECT_TRUE(planner.may_propose());
  EXPECT_FALSE(planner.hold(5));
  PlanAgreement first = beginner(2), second = beginner(3);
  const NewPlan none = first.propose_first(many);
  EXPECT_TRUE(none.trees.empty()) << "each goes by its own";
  EXPECT_TRUE(second.take(2, none));
  EXPECT_TRUE(second.first()->trees.empty());
}

}  // namespace
}  // namespace longhaul::overlay::forest
