#include "longhaul/sync/shuffle/schedule_switch.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/machine_net.h"
#include "longhaul/sync/shuffle/schedule.h"
#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::shuffle {
namespace {

using testing::OneNode;
using RoundReport = ScheduleSwitch::RoundReport;

// Goes through rounds as ds_sync does, with a word to the members of its group in the place of a
// mean: a round is over when all live members have said it.
class Walker final : public Machine {
 public:
  struct Here {
    LONGHAUL_MESSAGE(1, "here");
    Round round = 0;
    LONGHAUL_FIELDS(round)
  };
  static constexpr Round kRounds = 12;

  // `plans`: rounds before which the planner says anew which sites are slow.
  explicit Walker(Schedule schedule, std::set<Round> plans = {})
      : switch_(100), schedule_(std::move(schedule)), plans_(std::move(plans)) {
    own(switch_);
  }
  void on_progress(Turn& turn) override {
    if (plans_.contains(round_) && switch_.plan() &&
        senior_worker(turn.place(), turn.view()) == turn.self()) {
      plans_.erase(round_);
      switch_.propose({{turn.self(), 1 + double(round_), 0}}, within(switch_, turn));
    }
    while (round_ < kRounds && walk(turn)) {
    }
  }
  Status on_message(Rank from, const Message& message, Turn&) override {
    return dispatch(MessageList<Here>{}, message, [&](const Here& here) -> Status {
      heard_[here.round].insert(from);
      return Ok{};
    });
  }
  void state(Archive& ar) override { ar(round_, heard_, group_, used, plans_); }

  bool done() const { return round_ == kRounds; }
  std::string waiting_for() const { return switch_.waiting_for(); }
  // Whose schedule a round was of, and which sites were slow then.
  std::map<Round, std::pair<std::vector<Rank>, SlowSites>> used;

 private:
  bool walk(Turn& turn) {
    if (group_.empty()) {
      if (!switch_.knows(round_)) return false;
      const std::vector<Rank>& workers = switch_.workers_of(round_).second;
      used[round_] = {workers, switch_.start_of(round_).slow};
      Partition sites(workers.size());
      for (std::uint32_t i = 0; i < workers.size(); ++i) sites[i] = {i};
      for (const auto& group : schedule_.groups(sites, round_, Random(1, {Purpose::test, round_})))
        for (const std::uint32_t one : group)
          if (workers[one] == turn.self())
            for (const std::uint32_t member : group) group_.insert(workers[member]);
      for (const Rank to : group_)
        if (to != turn.self() && turn.view().has(to)) turn.send(to, Here{round_}, {}, kControl);
    }
    for (const Rank member : group_)
      if (member != turn.self() && turn.view().has(member) && !heard_[round_].contains(member))
        return false;
    group_.clear();
    heard_.erase(round_);
    switch_.enter(++round_);
    return true;
  }

  ScheduleSwitch switch_;
  const Schedule schedule_;
  std::set<Round> plans_;
  Round round_ = 0;
  std::map<Round, std::set<Rank>> heard_;
  std::set<Rank> group_;
};

// Any order of events, one to three losses, also while reports are under way: all survivors come to
// the end, and no two made the groups of a round of different workers.
TEST(ScheduleSwitch, AllMakeTheGroupsOfARoundOfTheSameWorkersWhoeverDiesWhen) {
  constexpr std::uint32_t kRanks = 6;
  constexpr std::uint64_t kEvery = (longhaul::testing::kGate ? 4 : 1) * longhaul::testing::kStride;
  std::uint64_t switched = 0, planned = 0;
  for (const char* kind : {"grid", "random", "radix"}) {
    for (std::uint64_t seed = 1; seed <= 1500; seed += kEvery) {
      SCOPED_TRACE(std::string(kind) + ", seed " + std::to_string(seed));
      longhaul::testing::MachineNet net(
          {.ranks = kRanks, .layout = Layout::flat(1), .seed = seed}, [&](const Place&) {
            return std::make_unique<Walker>(Schedule{kind}, std::set<Round>{1, 2, 5, 6, 9});
          });
      Random random(seed, {Purpose::test});
      std::vector<std::uint64_t> crashes(1 + random.below(3));
      for (auto& at : crashes) at = random.below(250);
      const bool saves = seed % 5 == 0;
      net.watch = [&] {
        for (const std::uint64_t at : crashes) {
          const Rank victim = Rank(at % kRanks);
          if (net.events() == at && net.alive(victim)) net.crash(victim);
        }
      };
      for (Rank rank = 0; rank < kRanks; ++rank)
        net.act(rank, [&](Turn& turn) {
          net.machine(rank).feed_all([](Machine& m, Turn& t) { m.on_start(t); }, turn);
        });
      for (std::uint64_t most = 100'000; net.step(); --most) {
        ASSERT_GT(most, 0u);
        if (saves)
          for (Rank rank = 0; rank < kRanks; ++rank)
            if (net.alive(rank) && (!longhaul::testing::kGate || net.events() % kRanks == rank))
              net.save_and_load(rank);
      }
      EXPECT_TRUE(net.errors.empty()) << net.errors.front();
      decltype(Walker::used) used;
      for (Rank rank = 0; rank < kRanks; ++rank) {
        if (!net.alive(rank)) continue;
        const auto& walker = static_cast<const Walker&>(net.machine(rank));
        ASSERT_TRUE(walker.done()) << rank << " waits for " << walker.waiting_for();
        for (const auto& [round, how] : walker.used) {
          EXPECT_EQ(used.try_emplace(round, how).first->second, how) << "round " << round;
          switched += how.first.size() < kRanks;
          planned += !how.second.empty();
        }
      }
    }
  }
  EXPECT_GT(switched, 1000u / kEvery);
  EXPECT_GT(planned, 1000u / kEvery);
}

struct Switching {
  explicit Switching(Rank self, std::uint32_t incarnation = 0)
      : node(4, {}, members(self, incarnation)), one(10) {
    node.place.self = self;
    one.on_start(node.turn);
  }
  static Members members(Rank self, std::uint32_t incarnation) {
    Members all{{"a"}, {"b"}, {"c"}, {"d"}};
    all[self].incarnation = incarnation;
    return all;
  }
  void see(View view) {
    const View before = std::exchange(node.view, std::move(view));
    one.on_view(before, node.turn);
  }
  void lose(Rank rank) {
    const View before = node.view;
    node.view.live.erase(rank);
    ++node.view.epoch;
    one.on_view(before, node.turn);
  }
  Status hear(Rank from, const RoundReport& report) {
    Message message = longhaul::testing::message_of(report);
    return one.on_message(from, message, node.turn);
  }
  std::vector<RoundReport> told() const {
    std::vector<RoundReport> all;
    for (const Send& send : node.done<Send>())
      all.push_back(*from_wire<RoundReport>(send.message.head.view()));
    return all;
  }
  OneNode node;
  ScheduleSwitch one;
};

TEST(ScheduleSwitch, TheNewGroupsBeginAfterTheLatestRoundReported) {
  Switching here(1);
  here.one.enter(4);
  here.lose(3);
  ASSERT_EQ(here.told().size(), 2u);
  EXPECT_EQ(here.told()[0].round, 4u);
  EXPECT_TRUE(here.one.knows(4));
  EXPECT_FALSE(here.one.knows(5));
  EXPECT_EQ(here.one.waiting_for(), "the rounds that ranks 0 2 are in");
  EXPECT_TRUE(here.hear(0, {1, 6, {{0, 0, 4}}}));
  EXPECT_TRUE(here.hear(2, {1, 3, {{0, 0, 4}}}));
  EXPECT_TRUE(here.one.knows(5));
  EXPECT_EQ(here.one.workers_of(6).second, (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(here.one.workers_of(7).second, (std::vector<Rank>{0, 1, 2}));
  EXPECT_EQ(here.one.workers_of(7).first, 1u);
}

// It ended round 4 meanwhile, which it may have told in the view before, and has begun no other.
TEST(ScheduleSwitch, AFurtherLossBeforeAllHaveReported) {
  Switching here(1);
  here.one.enter(4);
  here.lose(3);
  here.one.enter(5);
  here.lose(2);
  EXPECT_EQ(here.told().back().round, 4u);
  EXPECT_EQ(here.told().back().starts, (std::vector<ScheduleSwitch::Start>{{0, 0, 4}}));
  // The other one had heard rank 2, which is lost, and knows when the first view's groups began.
  EXPECT_TRUE(here.hear(0, {2, 7, {{0, 0, 4}, {1, 6, 3}}}));
  EXPECT_EQ(here.one.workers_of(5).first, 0u);
  EXPECT_EQ(here.one.workers_of(7).first, 1u);
  EXPECT_EQ(here.one.workers_of(8).first, 2u);
}

TEST(ScheduleSwitch, AViewThatNobodyKnewTheStartOfIsSkipped) {
  Switching here(1);
  here.lose(3);
  here.lose(2);
  EXPECT_TRUE(here.hear(0, {2, 0, {{0, 0, 4}}}));
  EXPECT_EQ(here.one.workers_of(0).first, 0u);
  EXPECT_EQ(here.one.workers_of(1).first, 2u);
}

TEST(ScheduleSwitch, ReportsThatCannotBeAreRefused) {
  Switching here(1);
  EXPECT_FALSE(here.hear(0, {0, 0, {{0, 0, 4}}})) << "not asked for";
  here.lose(3);
  EXPECT_FALSE(here.hear(0, {2, 0, {{0, 0, 4}}})) << "of a view to come";
  EXPECT_TRUE(here.hear(0, {0, 0, {{0, 0, 4}}})) << "of one that is over: late";
  EXPECT_FALSE(here.hear(3, {1, 0, {{0, 0, 4}}})) << "of who is lost";
  EXPECT_FALSE(here.hear(0, {1, 11, {{0, 0, 4}}})) << "far ahead";
  EXPECT_FALSE(here.hear(0, {1, 0, {}})) << "it has not come back";
  EXPECT_FALSE(here.hear(0, {1, 0, {{0, 0, 3}}})) << "of other workers";
  EXPECT_FALSE(here.hear(0, {1, 0, {{0, 1, 4}}}));
  EXPECT_FALSE(here.hear(0, {1, 0, {{0, 0, 4}, {1, 3, 3}}})) << "nobody can know it yet";
  EXPECT_FALSE(here.hear(0, {1, 0, {{0, 0, 4}, {0, 3, 4}}}));
  EXPECT_EQ(here.one.waiting_for(), "the rounds that ranks 0 2 are in") << "nothing was heard";
  EXPECT_TRUE(here.hear(0, {1, 10, {{0, 0, 4}}}));
  EXPECT_FALSE(here.hear(0, {1, 10, {{0, 0, 4}}})) << "twice";
  EXPECT_TRUE(here.hear(2, {1, 0, {{0, 0, 4}}}));
  EXPECT_EQ(here.one.workers_of(11).first, 1u);
}

// Rank 3 was lost in view 1 and comes back in view 2.
TEST(ScheduleSwitch, WhoComesBackTakesPartAfterTheLatestRoundReported) {
  Switching back(3, 1);
  EXPECT_FALSE(back.one.entry());
  const View with{.epoch = 2, .live = {0, 1, 2, 3}, .returned = {{3, 2}}};
  back.see(with);
  EXPECT_EQ(back.told().back().starts.size(), 0u);
  EXPECT_TRUE(back.hear(0, {2, 200, {{0, 0, 4}, {1, 90, 3}}}));
  EXPECT_TRUE(back.hear(1, {2, 203, {{0, 0, 4}, {1, 90, 3}}}));
  EXPECT_FALSE(back.one.entry());
  EXPECT_TRUE(back.hear(2, {2, 201, {{0, 0, 4}, {1, 90, 3}}}));
  EXPECT_EQ(back.one.entry(), Round{204});
  EXPECT_EQ(back.one.workers_of(204).second, (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(back.one.worker_count(203), 3u);
  EXPECT_EQ(back.one.worker_count(204), 4u);
  // The schedule of view 0 is of rounds that all have long behind them.
  back.see({.epoch = 3, .live = {0, 1, 3}, .returned = {{3, 2}}});
  EXPECT_EQ(back.told().back().round, 204u);
  EXPECT_EQ(back.told().back().starts,
            (std::vector<ScheduleSwitch::Start>{{1, 90, 3}, {2, 204, 4}}));
}

// Nobody whom it heard knew of view 2 when a further worker was lost, or somebody did.
TEST(ScheduleSwitch, WhoComesBackWhileAnotherIsLostTakesPartWhenTheOthersNameIt) {
  for (const bool knew : {false, true}) {
    Switching back(3, 1);
    back.see({.epoch = 2, .live = {0, 1, 2, 3}, .returned = {{3, 2}}});
    back.see({.epoch = 3, .live = {0, 1, 3}, .returned = {{3, 2}}});
    EXPECT_EQ(back.told().back().starts.size(), 0u);
    std::vector<ScheduleSwitch::Start> known{{0, 0, 4}, {1, 3, 3}};
    if (knew) known.push_back({2, 6, 4});
    EXPECT_TRUE(back.hear(0, {3, 5, {{0, 0, 4}, {1, 3, 3}}}));
    EXPECT_TRUE(back.hear(1, {3, 8, known}));
    EXPECT_EQ(back.one.entry(), Round{knew ? 6u : 9u});
    EXPECT_EQ(back.one.workers_of(9).second, (std::vector<Rank>{0, 1, 3}));
  }
}

TEST(ScheduleSwitch, TheOthersLeaveARoundThatOneWhoCameBackDoesNotKnowOut) {
  Switching here(1);
  here.one.enter(4);
  here.lose(3);
  EXPECT_TRUE(here.hear(0, {1, 4, {{0, 0, 4}}}));
  EXPECT_TRUE(here.hear(2, {1, 4, {{0, 0, 4}}}));
  here.one.enter(5);
  here.see({.epoch = 2, .live = {0, 1, 2, 3}, .returned = {{3, 2}}});
  EXPECT_TRUE(here.hear(3, {2, 0, {}}));
  EXPECT_TRUE(here.hear(0, {2, 6, {{0, 0, 4}, {1, 5, 3}}}));
  EXPECT_TRUE(here.hear(2, {2, 5, {{0, 0, 4}, {1, 5, 3}}}));
  EXPECT_EQ(here.one.workers_of(6).second, (std::vector<Rank>{0, 1, 2}));
  EXPECT_EQ(here.one.workers_of(7).second, (std::vector<Rank>{0, 1, 2, 3}));
}

constexpr double kFull = 1;
const SlowSites kSlowB = {{1, kFull, 0.2}}, kSlowC = {{2, kFull, 0.2}};

TEST(ScheduleSwitch, APlanHoldsFromTheRoundAfterTheLatestReportedOn) {
  Switching here(0);
  here.one.enter(4);
  ASSERT_TRUE(here.one.plan());
  here.one.propose(kSlowB, here.node.turn);
  EXPECT_FALSE(here.one.plan()) << "it is under way";
  ASSERT_EQ(here.told().size(), 3u);
  EXPECT_EQ(here.told()[0].plan, 1u);
  EXPECT_EQ(here.told()[0].slow, kSlowB);
  EXPECT_TRUE(here.one.knows(4));
  EXPECT_FALSE(here.one.knows(5));
  EXPECT_TRUE(here.hear(1, {0, 3, {{0, 0, 4}}, 1, kSlowB}));
  EXPECT_TRUE(here.hear(2, {0, 6, {{0, 0, 4}}, 1, kSlowB}));
  EXPECT_EQ(here.one.waiting_for(), "the rounds that ranks 3 are in");
  EXPECT_TRUE(here.hear(3, {0, 4, {{0, 0, 4}}, 1, kSlowB}));
  EXPECT_EQ(here.one.start_of(6).slow, SlowSites{});
  EXPECT_EQ(here.one.start_of(7).slow, kSlowB);
  EXPECT_EQ(*here.one.plan(), kSlowB);
  // A view keeps it.
  here.lose(3);
  EXPECT_TRUE(here.hear(1, {1, 8, {{0, 0, 4}, {0, 7, 4, 1, kSlowB}}}));
  EXPECT_TRUE(here.hear(2, {1, 8, {{0, 0, 4}, {0, 7, 4, 1, kSlowB}}}));
  EXPECT_EQ(here.one.start_of(9).slow, kSlowB);
  EXPECT_EQ(here.one.start_of(9).plan, 0u);
}

// Whoever hears of a plan first tells it, too. One that has heard all reports may be a plan further
// than a worker that has not.
TEST(ScheduleSwitch, ThePlanAfterTheOneThatRunsIsKeptForLater) {
  Switching here(3);
  EXPECT_TRUE(here.hear(1, {0, 0, {{0, 0, 4}}, 1, kSlowB})) << "not from the planner itself";
  ASSERT_EQ(here.told().size(), 3u);
  EXPECT_EQ(here.told()[0].slow, kSlowB);
  EXPECT_TRUE(here.hear(0, {0, 1, {{0, 0, 4}}, 1, kSlowB}));
  EXPECT_FALSE(here.hear(2, {0, 1, {{0, 0, 4}, {0, 2, 4, 1, kSlowB}}, 2, kSlowC}))
      << "it has not reported the first";
  EXPECT_TRUE(here.hear(0, {0, 1, {{0, 0, 4}, {0, 2, 4, 1, kSlowB}}, 2, kSlowC}));
  EXPECT_FALSE(here.hear(0, {0, 1, {{0, 0, 4}, {0, 2, 4, 1, kSlowB}}, 2, kSlowC})) << "twice";
  EXPECT_FALSE(here.hear(1, {0, 1, {{0, 0, 4}, {0, 2, 4, 1, kSlowB}}, 2, {}})) << "another one";
  EXPECT_EQ(here.told().size(), 3u);
  EXPECT_TRUE(here.hear(2, {0, 0, {{0, 0, 4}}, 1, kSlowB}));
  EXPECT_EQ(here.told().back().plan, 2u) << "the first is known, the second goes on";
  EXPECT_EQ(here.told().back().starts.back(), (ScheduleSwitch::Start{0, 2, 4, 1, kSlowB}));
  EXPECT_EQ(here.one.waiting_for(), "the rounds that ranks 1 2 are in");
}

TEST(ScheduleSwitch, PlansThatCannotBeAreRefused) {
  Switching here(3);
  EXPECT_FALSE(here.hear(0, {0, 0, {{0, 0, 4}}, 2, kSlowB})) << "not the next";
  EXPECT_FALSE(here.hear(0, {0, 0, {}, 1, kSlowB})) << "of one that knows nothing";
  EXPECT_FALSE(here.hear(0, {0, 0, {{0, 0, 4}}, 1, {{4, 1, 0}}})) << "of nobody";
  EXPECT_TRUE(here.hear(0, {0, 0, {{0, 0, 4}}, 1, kSlowB}));
  EXPECT_FALSE(here.hear(1, {0, 0, {{0, 0, 4}}, 1, kSlowC})) << "the planner said another";
  Switching back(3, 1);
  EXPECT_FALSE(back.hear(0, {0, 0, {{0, 0, 4}}, 1, kSlowB})) << "it knows of no view yet";
}

// Nobody who is left had heard all reports of the plan: no round was of it.
TEST(ScheduleSwitch, APlanThatALossCameIntoIsSkipped) {
  Switching here(1);
  here.one.enter(4);
  EXPECT_TRUE(here.hear(0, {0, 4, {{0, 0, 4}}, 1, kSlowB}));
  here.lose(0);
  EXPECT_EQ(here.told().back().plan, 0u);
  EXPECT_TRUE(here.hear(2, {1, 4, {{0, 0, 4}}}));
  EXPECT_TRUE(here.hear(3, {1, 4, {{0, 0, 4}}}));
  EXPECT_EQ(here.one.start_of(5).slow, SlowSites{});
  EXPECT_EQ(here.one.start_of(5).epoch, 1u);
}

TEST(ScheduleSwitch, WhoIsLeftAloneWaitsForNobody) {
  Switching here(1);
  for (const Rank rank : {0u, 2u, 3u}) here.lose(rank);
  EXPECT_TRUE(here.one.knows(100));
  EXPECT_EQ(here.one.workers_of(100).second, std::vector<Rank>{1});
}

}  // namespace
}  // namespace longhaul::sync::shuffle
