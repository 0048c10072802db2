#include "longhaul/sync/shuffle/schedule_switch.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/machine_net.h"
#include "longhaul/sync/shuffle/schedule.h"
#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::shuffle {
namespace {

using testing::OneNode;
using Start = ScheduleSwitch::Start;
using Starts = ScheduleSwitch::Starts;
using Ranks = std::vector<Rank>;

// Enters views and goes through rounds as ds_sync does, with a word to the members of its group in
// the place of a mean: a round is over when all live members have said it.
class Walker final : public Machine {
 public:
  struct Here {
    LONGHAUL_MESSAGE(1, "here");
    Round round = 0;
    LONGHAUL_FIELDS(round)
  };
  struct Entered {
    LONGHAUL_MESSAGE(2, "entered");
    Epoch epoch = 0;
    Round round = 0;
    LONGHAUL_FIELDS(epoch, round)
  };
  static constexpr Round kRounds = 12;

  // `plans`: rounds before which the planner says anew which sites are slow.
  explicit Walker(Schedule schedule, std::set<Round> plans = {})
      : switch_(100), schedule_(std::move(schedule)), plans_(std::move(plans)) {
    own(switch_);
  }
  void on_start(Turn& turn) override {
    for (const Rank rank : live_workers(turn)) entered_[rank] = 0;
  }
  void on_view(const View&, Turn& turn) override {
    has_begun_ = false;
    Ranks others = live_workers(turn);
    std::erase(others, turn.self());
    switch_.send_starts(others, round_, within(switch_, turn));
    entered_ = {{turn.self(), round_}};
    for (const Rank rank : others)
      turn.send(rank, Entered{turn.view().epoch, round_}, {}, kControl);
  }
  void on_progress(Turn& turn) override {
    if (!has_begun_ && entered_.size() == live_workers(turn).size()) {
      switch_.begin_view(entered_, {}, within(switch_, turn));
      has_begun_ = true;
    }
    if (plans_.contains(round_) && switch_.plan() && is_senior(turn)) {
      plans_.erase(round_);
      switch_.propose({{turn.self(), 1 + double(round_), 0}}, within(switch_, turn));
    }
    while (round_ < kRounds && has_begun_ && walk(turn)) {
    }
  }
  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(MessageList<Here, Entered>{}, message, [&](const auto& m) -> Status {
      if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Here>)
        heard_[m.round].insert(from);
      else if (m.epoch == turn.view().epoch)
        entered_[from] = m.round;
      return Ok{};
    });
  }
  void state(Archive& ar) override {
    ar(round_, heard_, group_, used, plans_, entered_, has_begun_);
  }

  bool done() const { return round_ == kRounds; }
  std::string waiting_for() const { return switch_.waiting_for(); }
  // Whose schedule a round was of, and which sites were slow then.
  std::map<Round, std::pair<Ranks, SlowSites>> used;

 private:
  bool walk(Turn& turn) {
    if (group_.empty()) {
      if (!switch_.knows(round_)) return false;
      const Start* start = switch_.start_of(round_);
      const Ranks workers = start->workers_in(round_);
      used[round_] = {workers, start->slow};
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
  std::map<Rank, Round> entered_;
  bool has_begun_ = false;
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

// Rank `self` of four.
struct Switching {
  explicit Switching(Rank self) : node(4, {}, {{"a"}, {"b"}, {"c"}, {"d"}}), one(10) {
    node.place.self = self;
  }
  void see(View view) {
    const View before = std::exchange(node.view, std::move(view));
    one.on_view(before, node.turn);
  }
  // The run begins, or all enter the view in these rounds.
  void begin(const std::map<Rank, Round>& rounds, const std::map<Rank, Round>& back = {}) {
    one.begin_view(rounds, back, node.turn);
  }
  void begin_run() { begin({{0, 0}, {1, 0}, {2, 0}, {3, 0}}); }
  void lose(Rank rank) {
    View view = node.view;
    view.live.erase(rank);
    ++view.epoch;
    see(std::move(view));
  }
  template <class M>
  Status hear(Rank from, const M& fields) {
    Message message = longhaul::testing::message_of(fields);
    return one.on_message(from, message, node.turn);
  }
  template <class M>
  std::vector<M> told() const {
    std::vector<M> all;
    for (const Send& send : node.done<Send>())
      if (send.message.kind == M::kKind) all.push_back(*from_wire<M>(send.message.head.view()));
    return all;
  }
  Ranks workers_of(Round round) const { return one.start_of(round)->workers_in(round); }
  Epoch epoch_of(Round round) const { return one.start_of(round)->epoch; }
  OneNode node;
  ScheduleSwitch one;
};

const Ranks kAll = {0, 1, 2, 3};

// Workers from round 0 on.
std::vector<ScheduleSwitch::Worker> from_the_start(const Ranks& ranks) {
  std::vector<ScheduleSwitch::Worker> workers;
  for (const Rank rank : ranks) workers.push_back({rank, 0});
  return workers;
}
const auto kAllWorkers = from_the_start(kAll), kOthers = from_the_start({0, 1, 2});
const Start kFirst = {0, 0, 0, kAllWorkers}, kWithout3 = {1, 0, 6, kOthers};

TEST(ScheduleSwitch, TheNewGroupsBeginAfterTheLatestRound) {
  Switching here(1);
  here.begin_run();
  here.lose(3);
  here.one.send_starts({0, 2}, 4, here.node.turn);
  ASSERT_EQ(here.told<Starts>().size(), 2u);
  EXPECT_EQ(here.told<Starts>()[0].starts, std::vector{kFirst});
  EXPECT_TRUE(here.hear(0, Starts{1, {kFirst}}));
  here.begin({{0, 6}, {1, 4}, {2, 3}});
  EXPECT_EQ(here.workers_of(6), kAll);
  EXPECT_EQ(here.workers_of(7), (Ranks{0, 1, 2}));
  EXPECT_EQ(here.epoch_of(7), 1u);
}

// The other one had seen all enter the first view, and knows when its groups began.
TEST(ScheduleSwitch, AFurtherLossBeforeAllHaveEnteredTheView) {
  Switching here(1);
  here.begin_run();
  here.lose(3);
  here.lose(2);
  EXPECT_TRUE(here.hear(0, Starts{2, {kFirst, kWithout3}}));
  here.begin({{0, 7}, {1, 4}});
  EXPECT_EQ(here.epoch_of(5), 0u);
  EXPECT_EQ(here.epoch_of(7), 1u);
  EXPECT_EQ(here.epoch_of(8), 2u);
}

TEST(ScheduleSwitch, AViewThatNobodyKnewTheStartOfIsSkipped) {
  Switching here(1);
  here.begin_run();
  here.lose(3);
  here.lose(2);
  EXPECT_TRUE(here.hear(0, Starts{2, {kFirst}}));
  here.begin({{0, 0}, {1, 0}});
  EXPECT_EQ(here.epoch_of(0), 0u);
  EXPECT_EQ(here.epoch_of(1), 2u);
}

// A loss before any worker has begun the run.
TEST(ScheduleSwitch, WithoutAScheduleTheFirstOneBeginsInRoundZero) {
  Switching here(1);
  here.lose(3);
  EXPECT_TRUE(here.hear(0, Starts{1, {}}));
  here.begin({{0, 0}, {1, 0}, {2, 0}});
  EXPECT_EQ(here.workers_of(0), (Ranks{0, 1, 2}));
}

TEST(ScheduleSwitch, OldStartsAreForgotten) {
  Switching here(1);
  here.begin_run();
  here.lose(3);
  here.begin({{0, 6}, {1, 4}, {2, 3}});
  here.one.enter(7);
  here.lose(2);
  here.begin({{0, 9}, {1, 7}});
  here.one.send_starts({0}, 9, here.node.turn);
  EXPECT_EQ(here.told<Starts>().back().starts,
            (std::vector<Start>{{1, 0, 7, kOthers}, {2, 0, 10, from_the_start({0, 1})}}));
}

TEST(ScheduleSwitch, StartsThatCannotBeAreRefused) {
  Switching here(1);
  here.begin_run();
  here.lose(3);
  EXPECT_TRUE(here.hear(0, Starts{0, {kFirst}})) << "of a view that is over: late";
  EXPECT_FALSE(here.hear(0, Starts{1, {{2, 0, 6, kOthers}}})) << "of a view to come";
  EXPECT_FALSE(here.hear(0, Starts{1, {kFirst, kFirst}}));
  EXPECT_FALSE(here.hear(0, Starts{1, {{0, 0, 0, from_the_start({0, 4})}}}))
      << "of who is not there";
  EXPECT_FALSE(here.hear(0, Starts{1, {{0, 0, 0, from_the_start({1, 1})}}}));
  EXPECT_FALSE(here.hear(0, Starts{1, {{0, 0, 0, kAllWorkers, {{4, 1, 0}}}}}));
  EXPECT_TRUE(here.hear(0, Starts{1, {kFirst}}));
  here.begin({{0, 1}, {1, 0}, {2, 0}});
  EXPECT_TRUE(here.hear(2, Starts{1, {{1, 1, 9, kOthers}}}));
  EXPECT_EQ(here.one.start_of(9)->plan, 0u) << "the view has begun";
}

const View kBack{.epoch = 2, .live = {0, 1, 2, 3}, .returned = {{3, 2}}};

// Rank 3 was lost in view 1 and comes back in view 2, in which the others wait for its round.
TEST(ScheduleSwitch, WhoComesBackIsInAGroupAfterTheLatestRound) {
  Switching back(3);
  back.see(kBack);
  EXPECT_TRUE(back.hear(0, Starts{2, {{1, 0, 90, kOthers}}}));
  EXPECT_TRUE(back.hear(1, Starts{2, {{1, 0, 90, kOthers}}}));
  back.one.send_starts({0, 1, 2}, 203, back.node.turn);
  EXPECT_EQ(back.told<Starts>().back().starts, (std::vector<Start>{{1, 0, 90, kOthers}}));
  back.begin({{0, 200}, {1, 203}, {2, 201}}, {{3, 203}});
  EXPECT_EQ(back.workers_of(203), (Ranks{0, 1, 2}));
  EXPECT_EQ(back.workers_of(204), kAll);
  EXPECT_EQ(back.one.start_of(89), nullptr) << "others have passed it";
}

// The others have begun the view, and tell it rounds that they have not begun.
TEST(ScheduleSwitch, WhoEntersLaterIsInGroupsFromItsRoundOn) {
  Switching here(1), back(3);
  here.begin_run();
  here.lose(3);
  here.begin({{0, 5}, {1, 5}, {2, 5}});
  here.see(kBack);
  here.begin({{0, 8}, {1, 7}, {2, 6}});
  here.one.send_starts({3}, 20, here.node.turn);
  back.see(kBack);
  EXPECT_TRUE(back.hear(1, here.told<Starts>().back()));
  here.one.add(3, 22);
  back.begin({{0, 22}, {1, 20}, {2, 21}}, {{3, 22}});
  for (const Switching* one : {&here, &back}) {
    EXPECT_EQ(one->workers_of(21), (Ranks{0, 1, 2}));
    EXPECT_EQ(one->workers_of(22), kAll);
    EXPECT_EQ(one->one.start_of(22)->first, 9u);
  }
}

// The next view comes before a worker knows that another has entered.
TEST(ScheduleSwitch, AViewKeepsWhomAnyoneSawEnter) {
  Switching here(1);
  here.node.view = kBack;
  EXPECT_TRUE(here.hear(0, Starts{2, {kFirst}}));
  here.begin({{0, 8}, {1, 7}, {2, 6}});
  here.see({.epoch = 3, .live = {0, 1, 3}, .returned = {{3, 2}}});
  Start with = {2, 0, 9, kOthers};
  with.add({3, 22});
  EXPECT_TRUE(here.hear(0, Starts{3, {with}}));
  EXPECT_TRUE(here.hear(3, Starts{3, {{2, 0, 9, kOthers}}}));
  here.begin({{0, 23}, {1, 20}, {3, 22}});
  EXPECT_EQ(here.workers_of(21), (Ranks{0, 1, 2}));
  EXPECT_EQ(here.workers_of(23), kAll);
  EXPECT_EQ(here.workers_of(24), (Ranks{0, 1, 3}));
}

constexpr double kFull = 1;
const SlowSites kSlowB = {{1, kFull, 0.2}}, kSlowC = {{2, kFull, 0.2}};
using RoundAsked = ScheduleSwitch::RoundAsked;
using RoundTold = ScheduleSwitch::RoundTold;
using Plan = ScheduleSwitch::Plan;

TEST(ScheduleSwitch, APlanHoldsFromTheRoundAfterTheLatestOneOn) {
  Switching here(0);
  here.begin_run();
  here.one.enter(4);
  ASSERT_TRUE(here.one.plan());
  here.one.propose(kSlowB, here.node.turn);
  EXPECT_FALSE(here.one.plan()) << "it is under way";
  EXPECT_EQ(here.told<RoundAsked>().size(), 3u);
  EXPECT_TRUE(here.one.knows(4));
  EXPECT_FALSE(here.one.knows(5));
  EXPECT_TRUE(here.hear(1, RoundTold{0, 3}));
  EXPECT_TRUE(here.hear(2, RoundTold{0, 6}));
  EXPECT_EQ(here.one.waiting_for(), "the rounds that ranks 3 are in");
  EXPECT_TRUE(here.hear(3, RoundTold{0, 4}));
  ASSERT_EQ(here.told<Plan>().size(), 3u);
  EXPECT_EQ(here.told<Plan>()[0].first, 7u);
  EXPECT_EQ(here.told<Plan>()[0].slow, kSlowB);
  EXPECT_EQ(here.one.start_of(6)->slow, SlowSites{});
  EXPECT_EQ(here.one.start_of(7)->slow, kSlowB);
  EXPECT_EQ(*here.one.plan(), kSlowB);
  // A view keeps it, also for a worker that had not got it.
  Switching other(2);
  other.begin_run();
  for (Switching* one : {&here, &other}) {
    one->lose(3);
    EXPECT_TRUE(one->hear(1, Starts{1, {kFirst, {0, 1, 7, kAllWorkers, kSlowB}}}));
    one->begin({{0, 8}, {1, 8}, {2, 6}});
    EXPECT_EQ(one->one.start_of(6)->slow, SlowSites{});
    EXPECT_EQ(one->one.start_of(9)->slow, kSlowB);
    EXPECT_EQ(one->one.start_of(9)->plan, 0u);
  }
}

TEST(ScheduleSwitch, AWorkerBeginsNoRoundAfterTheOneItHasToldBeforeThePlanIsHere) {
  Switching here(3);
  EXPECT_TRUE(here.hear(0, RoundAsked{0}));
  EXPECT_TRUE(here.told<RoundTold>().empty()) << "the view has not begun";
  here.one.enter(4);
  here.begin_run();
  ASSERT_EQ(here.told<RoundTold>().size(), 1u);
  EXPECT_EQ(here.told<RoundTold>()[0].round, 4u);
  EXPECT_TRUE(here.one.knows(4));
  EXPECT_FALSE(here.one.knows(5));
  EXPECT_EQ(here.one.waiting_for(), "the plan of the slow sites, of the senior worker");
  EXPECT_TRUE(here.hear(0, Plan{0, 7, kSlowB}));
  EXPECT_TRUE(here.one.knows(5));
  EXPECT_EQ(here.one.start_of(7)->slow, kSlowB);
  EXPECT_TRUE(here.hear(0, RoundAsked{0}));
  EXPECT_TRUE(here.hear(0, Plan{0, 9, kSlowC}));
  EXPECT_EQ(*here.one.start_of(9), (Start{0, 2, 9, kAllWorkers, kSlowC}));
}

TEST(ScheduleSwitch, PlansThatCannotBeAreRefused) {
  Switching here(3);
  here.begin_run();
  here.one.enter(4);
  EXPECT_FALSE(here.hear(1, RoundAsked{0})) << "not the planner";
  EXPECT_FALSE(here.hear(0, Plan{0, 7, kSlowB})) << "not announced";
  EXPECT_FALSE(here.hear(1, RoundTold{0, 4})) << "not asked for";
  EXPECT_TRUE(here.hear(0, RoundAsked{0}));
  EXPECT_FALSE(here.hear(0, RoundAsked{0})) << "twice";
  EXPECT_FALSE(here.hear(0, Plan{0, 4, kSlowB})) << "this worker is in that round";
  EXPECT_FALSE(here.hear(0, Plan{0, 7, {{4, 1, 0}}})) << "of nobody";
  EXPECT_FALSE(here.one.knows(5));
  Switching planner(0);
  planner.begin_run();
  planner.one.propose(kSlowB, planner.node.turn);
  EXPECT_TRUE(planner.hear(1, RoundTold{0, 1000})) << "counts as the latest one that can be";
  EXPECT_FALSE(planner.hear(1, RoundTold{0, 10})) << "twice";
}

// Nobody who is left has the plan: no round was of it.
TEST(ScheduleSwitch, APlanThatALossCameIntoIsSkipped) {
  Switching here(1);
  here.begin_run();
  here.one.enter(4);
  EXPECT_TRUE(here.hear(0, RoundAsked{0}));
  here.lose(0);
  EXPECT_TRUE(here.hear(2, Starts{1, {kFirst}}));
  EXPECT_TRUE(here.hear(3, Starts{1, {kFirst}}));
  here.begin({{1, 4}, {2, 4}, {3, 4}});
  EXPECT_TRUE(here.one.knows(5));
  EXPECT_EQ(*here.one.start_of(5), (Start{1, 0, 5, from_the_start({1, 2, 3})}));
}

TEST(ScheduleSwitch, WhoIsLeftAloneWaitsForNobody) {
  Switching here(1);
  here.begin_run();
  for (const Rank rank : {0u, 2u, 3u}) here.lose(rank);
  here.begin({{1, 4}});
  here.one.propose(kSlowB, here.node.turn);
  EXPECT_TRUE(here.one.knows(100));
  EXPECT_EQ(here.workers_of(100), Ranks{1});
  EXPECT_EQ(*here.one.plan(), kSlowB);
}

}  // namespace
}  // namespace longhaul::sync::shuffle
