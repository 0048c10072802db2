#include "longhaul/sync/gadmm/stopping.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::gadmm {
namespace {

const std::vector<Rank> kTwo = {0, 1};

// The figures of two workers, round after round.
std::optional<Round> holds_since(Stopping::Config config,
                                 const std::vector<std::pair<double, double>>& figures) {
  Stopping stopping(std::move(config), kTwo.size());
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
  Stopping stopping({.rule = "published", .least = 1}, 2);
  stopping.add(0, 1, 1);
  stopping.add(0, 0, 7);
  EXPECT_EQ(stopping.missing(kTwo), (std::vector<Rank>{1}));
  EXPECT_TRUE(stopping.judge(kTwo).empty());
  EXPECT_EQ(stopping.judge({0}).size(), 2u);  // rank 1 is lost
  EXPECT_EQ(stopping.holds_since(), 1u);
}

TEST(Stopping, AfterALossItBeginsAnew) {
  Stopping stopping({.rule = "published", .least = 1}, 1);
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

// One of three workers.
struct StoppingNode {
  explicit StoppingNode(Rank self)
      : node(4, {}, Members{{"a"}, {"b"}, {"c"}}), stopping({.rule = "published", .least = 3}, 3) {
    node.place.self = self;
  }
  template <class M>
  Status receive(Rank from, const M& fields, Epoch epoch = 0) {
    Message message = longhaul::testing::message_of(fields);
    message.epoch = epoch;
    return stopping.on_message(from, message, node.turn);
  }
  // Receiver and content of the ends that it has sent.
  std::vector<std::pair<Rank, Round>> ends() const {
    std::vector<std::pair<Rank, Round>> all;
    for (const Send& send : node.done<Send>())
      if (send.message.kind == Stopping::End::kKind)
        all.emplace_back(send.to, from_wire<Stopping::End>(send.message.head.view())->after);
    return all;
  }
  testing::OneNode node;
  Stopping stopping;
};

TEST(Stopping, TheSeniorWorkerJudgesAndEndsTheRun) {
  StoppingNode judge(0), other(1);
  other.stopping.round_done(0, 1, 0, {}, other.node.turn);
  ASSERT_EQ(other.node.done<Send>().size(), 1u);
  EXPECT_EQ(other.node.done<Send>()[0].to, 0u);
  EXPECT_FALSE(other.receive(2, Stopping::Figure{0, 1})) << "it does not judge";

  EXPECT_TRUE(judge.receive(1, Stopping::Figure{0, 1}));
  EXPECT_TRUE(judge.receive(2, Stopping::Figure{0, 1}));
  EXPECT_TRUE(judge.receive(2, Stopping::Figure{1, 1}));
  EXPECT_EQ(judge.stopping.end(), 0u);
  judge.stopping.round_done(0, 1, 0, {}, judge.node.turn);
  EXPECT_EQ(judge.stopping.end(), 1u + 2 * 3 + 2);
  EXPECT_FALSE(judge.stopping.is_over(8));
  EXPECT_TRUE(judge.stopping.is_over(9));
  EXPECT_EQ(judge.ends(), (std::vector<std::pair<Rank, Round>>{{1, 9}, {2, 9}}));
}

TEST(Stopping, TheJudgeWaitsForFiguresOfWorkersFarBehind) {
  StoppingNode judge(0), other(1);
  for (Round k = 0; k < 4; ++k) {
    EXPECT_FALSE(judge.stopping.holds_back(k, judge.node.turn)) << k;
    judge.stopping.round_done(k, 7, 0, {}, judge.node.turn);
    other.stopping.round_done(k, 7, 0, {}, other.node.turn);
  }
  EXPECT_TRUE(judge.stopping.holds_back(4, judge.node.turn));
  EXPECT_EQ(judge.stopping.waiting_for({0, 1, 2}), "figures of iteration 0 of ranks 1 2");
  EXPECT_FALSE(other.stopping.holds_back(4, other.node.turn)) << "it does not judge";
  for (const Rank from : {1u, 2u}) EXPECT_TRUE(judge.receive(from, Stopping::Figure{0, 7}));
  EXPECT_FALSE(judge.stopping.holds_back(4, judge.node.turn));
}

// No other can be in a round as far on as the end, n + 1 rounds behind it.
TEST(Stopping, TheJudgeStaysUntilAllKnowTheEnd) {
  StoppingNode judge(0);
  for (const Rank from : {1u, 2u}) EXPECT_TRUE(judge.receive(from, Stopping::Figure{0, 1}));
  judge.stopping.round_done(0, 1, 0, {}, judge.node.turn);
  ASSERT_EQ(judge.stopping.end(), 9u);
  EXPECT_FALSE(judge.stopping.holds_back(4, judge.node.turn));
  EXPECT_TRUE(judge.stopping.holds_back(5, judge.node.turn));
  EXPECT_FALSE(judge.receive(1, Stopping::End{8})) << "another one";
  EXPECT_TRUE(judge.receive(1, Stopping::End{9}));
  EXPECT_TRUE(judge.stopping.holds_back(5, judge.node.turn));
  EXPECT_EQ(judge.stopping.waiting_for({0, 1, 2}), "answers to the end of the run of ranks 2");
  EXPECT_TRUE(judge.receive(2, Stopping::End{9}));
  EXPECT_FALSE(judge.stopping.holds_back(5, judge.node.turn));
}

// A liar ends no run: what is not of the judge does not count, in a new view or not.
TEST(Stopping, TheEndIsTheJudges) {
  StoppingNode node(1);
  EXPECT_FALSE(node.receive(2, Stopping::End{30}));
  EXPECT_FALSE(node.receive(0, Stopping::End{0}));
  EXPECT_EQ(node.stopping.end(), 0u);
  EXPECT_TRUE(node.receive(0, Stopping::End{30}));
  EXPECT_EQ(node.ends(), (std::vector<std::pair<Rank, Round>>{{0, 30}})) << "its answer";
  EXPECT_FALSE(node.receive(0, Stopping::End{31}));
  EXPECT_EQ(node.stopping.end(), 30u);
}

// A new judge that does not know the end judges anew; one that knows it sends it to all.
TEST(Stopping, TheEndOfALostJudgeIsThatOfTheNextOne) {
  StoppingNode next(1), other(2);
  ASSERT_TRUE(other.receive(0, Stopping::End{30}));
  for (StoppingNode* one : {&next, &other}) {
    one->node.view = {.epoch = 1, .live = {1, 2}};
    one->stopping.enter_view(one->node.turn);
    one->stopping.on_view({}, one->node.turn);
  }
  EXPECT_EQ(other.stopping.end(), 0u);
  EXPECT_TRUE(next.ends().empty());
  EXPECT_TRUE(other.receive(1, Stopping::End{40}, 1));
  EXPECT_EQ(other.stopping.end(), 40u);
  other.node.view = {.epoch = 2, .live = {2}};
  other.stopping.enter_view(other.node.turn);
  EXPECT_EQ(other.stopping.end(), 40u) << "it judges now";
}

TEST(Stopping, AViewBeginsWithoutFiguresAndWithTheEnd) {
  StoppingNode judge(0);
  EXPECT_TRUE(judge.receive(1, Stopping::Figure{0, 1}));
  judge.node.view.epoch = 1;
  judge.stopping.on_view({}, judge.node.turn);
  EXPECT_TRUE(judge.receive(2, Stopping::Figure{0, 1}, 0)) << "late";
  judge.stopping.round_done(0, 1, 0, {}, judge.node.turn);
  EXPECT_EQ(judge.stopping.missing({0, 1, 2}), (std::vector<Rank>{1, 2}));
  judge.stopping.enter_view(judge.node.turn);
  EXPECT_TRUE(judge.node.done<Send>().empty()) << "no end is known";
  for (const Rank from : {1u, 2u}) EXPECT_TRUE(judge.receive(from, Stopping::Figure{0, 1}, 1));
  EXPECT_EQ(judge.ends().size(), 2u);
  judge.stopping.enter_view(judge.node.turn);
  EXPECT_EQ(judge.ends().size(), 4u);
}

TEST(Stopping, APeerCannotMakeItKeepMoreAndMore) {
  StoppingNode judge(0);
  Round kept = 0;
  while (kept < 1000 && judge.receive(1, Stopping::Figure{kept, 1})) ++kept;
  EXPECT_EQ(kept, 2 * 3 + 3u);
}

}  // namespace
}  // namespace longhaul::sync::gadmm
