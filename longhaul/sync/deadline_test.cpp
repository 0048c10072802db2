// Workers with deadlines, event by event, over an overlay whose means come when the test says so.
// Each test runs as it is, and with the worker saved and loaded after every event. Whole jobs:
// tests/deadline_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "longhaul/sync/esync_states.h"
#include "longhaul/sync/testing/hand_made.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::Floats;
using testing::set_count;
using testing::set_name;
using namespace std::chrono_literals;
using namespace std::string_literals;
using SettingList = std::vector<Setting>;
using Figures = std::vector<std::pair<Round, double>>;

struct LateWorkerConfig {
  std::string_view sync;
  SettingList settings;
  bool reloads = false;  // after every event
  Rank self = 1;         // of three
  bool returns = false;
  StopConfig stop = {.max_rounds = 1000, .report_every = 1000};
};

// Two parameters, of which each step halves 8, and a buffer that counts the steps.
class LateWorker : testing::HandMadeNode {
 public:
  explicit LateWorker(const LateWorkerConfig& config)
      : HandMadeNode(3,
                     {.target = 0,
                      .slope = 0,
                      .start = config.returns ? 99.f : 8.f,
                      .rate = 0.5f,
                      .buffers = 1},
                     three(config.self, config.returns), config.self, config.stop,
                     testing::maker(config.sync, config.settings)),
        reloads_(config.reloads) {
    event([&] { start(); });
  }

  // --- what happens to it
  void step(Time took = 1s) {
    ASSERT_TRUE(computes());
    event([&] {
      context.now += took;
      context.busy = false;
      context.working = --steps_left_ > 0;
      StepResult result = *learner.step(work_);
      result.elapsed = took;
      computed_.add(result);
      strategy->on_step(result, turn);
      stops_ |= std::exchange(context.stop_computing, false);
      if (steps_left_ == 0 || stops_) {
        steps_left_ = 0;
        context.working = false;
        strategy->on_computed(std::exchange(computed_, {}), turn);
      }
      progress();
    });
  }
  // The first of its timers.
  void timer() {
    ASSERT_FALSE(timers_.empty());
    const auto first = std::ranges::min_element(
        timers_, {}, [](const auto& one) { return std::pair(one.second, one.first); });
    const auto due = *first;
    timers_.erase(first);
    event([&] {
      context.now = std::max(context.now, due.second);
      strategy->feed_timer(due.first.first, due.first.second, turn);
    });
  }
  // The mean of the round that runs, of these workers.
  void mean(float value, float buffer, std::vector<Rank> counted) {
    const Round round = strategy->rounds_done();
    ASSERT_TRUE(overlay->begun.contains({round, 0, 0})) << round;
    event([&] {
      overlay->outcomes[{round, 0, 0}] = {{value, value}, 1, counted, view.epoch};
      overlay->outcomes[{round, 0, 1}] = {{buffer}, 1, counted, view.epoch};
      progress();
    });
  }
  void see(View next) {
    event([&] { HandMadeNode::see(std::move(next)); });
  }
  void others_at(Round round) {
    event([&] {
      overlay->next = {{0, round}, {1, round}};
      progress();
    });
  }
  void score(Round round) {
    event([&] { HandMadeNode::score(round); });
  }
  void deliver(Rank from, const Message& message) {
    event([&] { EXPECT_TRUE(hear(from, message)); });
  }
  // Of esync's state server, to the last question.
  void grant(std::uint32_t more) {
    const auto sent = done<Send>();
    const auto asked = std::find_if(sent.rbegin(), sent.rend(), [](const Send& send) {
      return send.message.kind == esync::States::Query::kKind;
    });
    ASSERT_NE(asked, sent.rend());
    const auto query = from_wire<esync::States::Query>(asked->message.head.view());
    ASSERT_TRUE(query);
    Message answer = asked->message;
    answer.kind = esync::States::Grant::kKind;
    answer.head = Payload(share(to_wire(esync::States::Grant{query->round, query->steps, more})));
    deliver(0, answer);
  }

  // --- what it does
  bool computes() const { return steps_left_ > 0; }
  Floats x() { return all(); }
  bool takes_part(Round round) const { return overlay->begun.contains({round, 0, 0}); }
  // To the mean of the round: the same value for both parameters; none: it takes part without.
  std::optional<float> gave(Round round) const {
    const auto& begun = overlay->begun.at({round, 0, 0});
    if (!begun.contributes) return std::nullopt;
    EXPECT_EQ(begun.values, Floats(2, begun.values.front()));
    return begun.values.front();
  }
  float buffer_given(Round round) const { return overlay->begun.at({round, 0, 1}).values.at(0); }
  bool stands_by(Round round) const { return takes_part(round) && !gave(round); }
  using HandMadeNode::recorded;
  std::vector<Send> sends() const { return done<Send>(); }
  bool has_timer() const { return !timers_.empty(); }
  Time now() const { return context.now; }
  bool has_finished() const { return !done<Finish>().empty(); }
  Round rounds_done() const { return strategy->rounds_done(); }

 private:
  static Members three(Rank self, bool returns) {
    Members members{{"a"}, {"b"}, {"c"}};
    members[self].incarnation = returns ? 1 : 0;
    return members;
  }
  // As Node does, after the event.
  void event(auto&& happens) {
    happens();
    stops_ |= std::exchange(context.stop_computing, false);
    if (!context.wanted.empty()) {
      std::tie(work_, steps_left_) = std::exchange(context.wanted, {}).front();
      stops_ = false;
    }
    context.busy = context.working = steps_left_ > 0;
    for (; heard_ < context.actions.size(); ++heard_) {
      const Action& action = context.actions[heard_];
      if (const auto* set = std::get_if<SetTimer>(&action))
        timers_[{set->machine, set->id}] = set->at;
      if (const auto* off = std::get_if<CancelTimer>(&action))
        timers_.erase({off->machine, off->id});
    }
    if (reloads_) save_and_load();
  }

  const bool reloads_;
  std::map<std::pair<Path, TimerId>, Time> timers_;
  std::size_t heard_ = 0;  // actions
  Work work_;
  std::uint32_t steps_left_ = 0;
  bool stops_ = false;
  Computed computed_;
};

struct DeadlineWorker : ::testing::TestWithParam<bool> {
  static LateWorkerConfig of(std::string_view sync, SettingList settings, SettingList more) {
    settings.insert(settings.end(), more.begin(), more.end());
    return {.sync = sync, .settings = settings, .reloads = GetParam()};
  }
  // Two steps a round, which may take 5 s.
  static LateWorkerConfig fedavg(SettingList more = {}) {
    return of("fedavg",
              {set_count("steps", 2),
               {"round_timeout_s", {5.}},
               set_name("weights", "equal"),
               {"reset_optimizer", {false}}},
              std::move(more));
  }
  static LateWorkerConfig esync(SettingList more = {}) {
    return of("esync", {{"round_deadline", {2.}}, {"state_timeout_s", {1000.}}}, std::move(more));
  }
  static LateWorkerConfig nbsync(SettingList more = {}) {
    return of("nbsync", {{"window_deadline", {3.}}}, std::move(more));
  }
};
INSTANTIATE_TEST_SUITE_P(Sync, DeadlineWorker, ::testing::Bool(), [](const auto& info) {
  return info.param ? "saved_and_loaded"s : "as_it_is"s;
});

const Setting kQuorumOfTwo = set_count("min_clients", 2), kLateIsDropped = set_name("late", "drop");
const std::vector<Rank> kAllGave{0, 1, 2}, kOthersGave{0, 2}, kTooFewGave{2};
const View kRankOneIsBack{2, {0, 1, 2}, {{1, 2}}};  // rank 1 is back in epoch 2

// --- fedavg

TEST_P(DeadlineWorker, FedAvgMovesACopyWhileItsStepsGoOnAndGivesTheirUpdateOnce) {
  for (const bool drops : {false, true}) {
    SCOPED_TRACE(drops);
    LateWorker w(fedavg(drops ? SettingList{kLateIsDropped} : SettingList{}));
    w.step();
    EXPECT_FALSE(w.takes_part(0));
    w.timer();
    EXPECT_TRUE(w.stands_by(0) && w.computes());
    w.mean(1, 5, kOthersGave);
    EXPECT_TRUE(w.stands_by(1)) << "the next round does not wait at all";
    w.mean(1, 6, kOthersGave);
    w.step();
    EXPECT_EQ(w.x(), (Floats{10, 10, 6})) << "the model of two rounds";
    EXPECT_TRUE(w.stands_by(2) && !w.computes());
    w.mean(1, 7, kOthersGave);
    EXPECT_EQ(w.x(), (Floats{11, 11, 7}));
    if (drops) {
      EXPECT_FALSE(w.takes_part(3));
      EXPECT_EQ(w.recorded("late_dropped"), (Figures{{3, 2}}));
    } else {
      EXPECT_EQ(w.gave(3), -6) << "from 8 to 2";
      EXPECT_EQ(w.buffer_given(3), 2);
      EXPECT_EQ(w.recorded("late"), (Figures{{3, 3}}));
      w.mean(-1, 1, kAllGave);
    }
    const Round next = drops ? 3 : 4;
    EXPECT_EQ(w.x()[0], drops ? 11 : 10);
    w.step(), w.step();
    EXPECT_EQ(w.gave(next), drops ? -8.25f : -7.5f);
    w.mean(0, 0, kAllGave);
    EXPECT_EQ(w.recorded("late").size(), drops ? 0u : 1u) << "in time again";
    EXPECT_EQ(w.recorded("late_dropped").size(), drops ? 1u : 0u);
    w.timer();
    EXPECT_TRUE(w.stands_by(next + 1)) << "and late again";
  }
}

TEST_P(DeadlineWorker, FedAvgGivesAgainWhatAMeanOfTooFewWasGiven) {
  LateWorker w(fedavg({kQuorumOfTwo, kLateIsDropped}));
  w.step(), w.step();
  EXPECT_EQ(w.gave(0), -6);
  for (Round round = 0; round < 2; ++round) {
    w.mean(50, 50, kTooFewGave);
    EXPECT_EQ(w.x(), (Floats{8, 8, 0})) << "the model has not moved";
    EXPECT_EQ(w.gave(round + 1), -6);
    EXPECT_EQ(w.buffer_given(round + 1), 2);
  }
  w.mean(-2, 1, kAllGave);
  EXPECT_EQ(w.x(), (Floats{6, 6, 1}));
  EXPECT_TRUE(w.computes());
  EXPECT_TRUE(w.recorded("late").empty() && w.recorded("late_dropped").empty());
  w.timer();
  w.mean(50, 50, kTooFewGave);
  EXPECT_FALSE(w.takes_part(4)) << "what was used is not given again; nor is there a new update";
}

// As long as a mean may be refused for the want of those who are late, rounds wait for them, as
// long as for any step; also if a verdict came between.
TEST_P(DeadlineWorker, FedAvgWaitsAgainAfterAMeanOfTooFew) {
  for (const bool drops : {false, true}) {
    SCOPED_TRACE(drops);
    LateWorkerConfig config =
        fedavg(drops ? SettingList{kQuorumOfTwo, kLateIsDropped} : SettingList{kQuorumOfTwo});
    config.self = 0;  // the reporter
    config.stop.report_every = 1;
    LateWorker w(config);
    w.timer();
    EXPECT_TRUE(w.stands_by(0));
    w.mean(50, 50, kTooFewGave);
    EXPECT_FALSE(w.takes_part(1));
    w.timer();
    EXPECT_EQ(w.now(), 10s);
    EXPECT_TRUE(w.stands_by(1));
    w.mean(50, 50, kTooFewGave);
    w.score(0);
    EXPECT_FALSE(w.takes_part(2)) << "after the verdict";
    w.timer();
    EXPECT_EQ(w.now(), 15s);
    w.mean(1, 5, {1, 2});
    w.score(1);
    EXPECT_TRUE(w.stands_by(3)) << "that mean was used";
    w.score(2);
    w.mean(50, 50, kTooFewGave);
    w.step(), w.step();
    EXPECT_EQ(w.x(), (Floats{9, 9, 5}));
    if (drops) {
      EXPECT_TRUE(w.stands_by(4));
      EXPECT_EQ(w.recorded("late_dropped"), (Figures{{4, 2}}));
      continue;
    }
    EXPECT_EQ(w.gave(4), -6) << "the round has waited for it";
    w.score(3);
    w.mean(50, 50, kTooFewGave);
    EXPECT_EQ(w.gave(5), -6);
    EXPECT_EQ(w.x(), (Floats{9, 9, 5}));
    EXPECT_EQ(w.recorded("late"), (Figures{{4, 1}, {5, 1}}));
    w.score(4);
    w.mean(1, 5, kAllGave);
    EXPECT_TRUE(w.computes());
  }
}

// The run ends with the model of the last round, and with all that was computed accounted for.
TEST_P(DeadlineWorker, FedAvgDiscardsAtTheEndWhatIsInNoMean) {
  const auto run_of_one = [&](SettingList more) {
    LateWorkerConfig config = fedavg(std::move(more));
    config.stop.max_rounds = 1;
    return config;
  };
  const auto expect_discarded = [](const LateWorker& w, int steps) {
    EXPECT_TRUE(w.has_finished() && !w.computes());
    const Figures figures = w.recorded("late_dropped");
    EXPECT_EQ(figures, steps > 0 ? (Figures{{1, steps}}) : Figures{});
  };
  LateWorker refused(run_of_one({kQuorumOfTwo}));
  refused.step(), refused.step();
  refused.mean(50, 50, kTooFewGave);
  expect_discarded(refused, 2);
  EXPECT_EQ(refused.x(), (Floats{8, 8, 0}));
  LateWorker done(run_of_one({}));
  done.timer();
  done.step(), done.step();
  done.mean(1, 5, kOthersGave);
  expect_discarded(done, 2);
  EXPECT_EQ(done.x(), (Floats{9, 9, 5}));
  // It ends at the next boundary, also before its first step: with epochs one is counted on a copy.
  for (const bool counts : {false, true}) {
    LateWorker computing(run_of_one(counts ? SettingList{{"epochs", {2.}}} : SettingList{}));
    computing.timer();
    computing.mean(1, 5, kOthersGave);
    EXPECT_FALSE(computing.has_finished());
    computing.step();
    expect_discarded(computing, counts ? 0 : 1);
    EXPECT_EQ(computing.x(), (Floats{9, 9, 5}));
  }
}

// --- esync

// Rounds until there is a deadline: a step and a mean of nothing each. The median is a second.
void play_three_rounds(LateWorker& w) {
  w.step();  // on a copy
  for (Round round = 0; round < 3; ++round) {
    w.step();
    w.grant(0);
    EXPECT_EQ(w.gave(round), -4);
    w.mean(0, 0, kAllGave);
  }
}

TEST_P(DeadlineWorker, ESyncGivesAtTheDeadlineTheStepsThatAreDone) {
  LateWorker w(esync());
  play_three_rounds(w);
  for (const Round round : {3u, 4u}) {
    w.grant(5);
    w.step();
    w.timer();
    EXPECT_FALSE(w.takes_part(round)) << "in the midst of a step";
    w.step();
    EXPECT_EQ(w.gave(round), -6);
    w.mean(0, 0, kAllGave);
  }
  EXPECT_TRUE(w.recorded("late").empty());
}

// It has steps to give, but the one that it is at goes on for twice as long as the last.
TEST_P(DeadlineWorker, ESyncIsLateWithAStepThatIsUnusuallyLong) {
  LateWorker w(esync());
  play_three_rounds(w);
  w.grant(5);
  w.step();
  w.timer();
  EXPECT_FALSE(w.takes_part(3));
  w.timer();
  EXPECT_TRUE(w.stands_by(3) && w.computes());
  EXPECT_EQ(w.sends().back().message.kind, esync::States::Late::kKind);
  w.mean(1, 5, kOthersGave);
  EXPECT_TRUE(w.stands_by(4));
  w.step();
  EXPECT_EQ(w.x(), (Floats{9, 9, 5}));
  w.mean(1, 5, kOthersGave);
  EXPECT_EQ(w.gave(5), -6);
  EXPECT_EQ(w.recorded("late"), (Figures{{5, 2}}));
}

// Without a step to compute it is not late: who waits for the state server has nothing under way.
TEST_P(DeadlineWorker, ESyncWaitsForAGrantPastTheDeadline) {
  LateWorker w(esync({set_name("mode", "public")}));
  w.step();  // on a copy
  for (Round round = 0; round < 3; ++round) {
    w.grant(1);
    w.step();
    w.grant(0);
    w.mean(0, 0, kAllGave);
  }
  w.timer();
  EXPECT_FALSE(w.takes_part(3));
  w.grant(1);
  w.timer();
  EXPECT_TRUE(w.stands_by(3)) << "now a step is under way";
}

// --- nbsync

// Windows of one step, until there is a deadline: 3 s after a mean has come. W stays 8; the step
// after the first, which no swap precedes, is from 4 to 2.
void play_three_windows(LateWorker& w, bool scores = false) {
  w.step();
  for (Round window = 0; window < 3; ++window) {
    EXPECT_EQ(w.gave(window), window == 1 ? -2 : -4);
    w.mean(0, 0, kAllGave);
    w.step();
    if (scores && window < 2) w.score(window);
  }
}

TEST_P(DeadlineWorker, NBSyncHandsOverWhatIsLateWithItsNextProgress) {
  for (const bool drops : {false, true}) {
    SCOPED_TRACE(drops);
    LateWorker w(nbsync(drops ? SettingList{kLateIsDropped} : SettingList{}));
    play_three_windows(w);
    EXPECT_EQ(w.gave(3), -4);
    w.mean(1, 5, kAllGave);
    EXPECT_FALSE(w.takes_part(4)) << "in the midst of a step";
    w.timer();
    EXPECT_TRUE(w.stands_by(4));
    w.mean(1, 6, kOthersGave);
    EXPECT_TRUE(w.stands_by(5)) << "the same step";
    w.step();
    EXPECT_EQ(w.x(), (Floats{10, 10, 6})) << "W_5";
    EXPECT_EQ(w.recorded("late_dropped"), drops ? (Figures{{5, 1}}) : Figures{});
    w.mean(1, 7, kOthersGave);
    EXPECT_FALSE(w.takes_part(6)) << "another step, which has as long";
    w.step();
    EXPECT_EQ(w.x(), (Floats{11, 11, 7}));
    EXPECT_EQ(w.gave(6), drops ? -5 : -9) << "of 8 to 4 and of 10 to 5";
    w.mean(1, 7, kAllGave);
    w.step();
    EXPECT_EQ(w.gave(7), -5.5f);
    const double before = drops ? 1 : 3;  // windows since the model that the first step was from
    EXPECT_EQ(w.recorded("staleness"),
              (Figures{{0, 0}, {1, 1}, {2, 1}, {3, 1}, {6, before}, {7, 1}}));
    EXPECT_EQ(w.recorded("late"), drops ? Figures{} : (Figures{{6, 2}}));
  }
}

TEST_P(DeadlineWorker, NBSyncHandsOverAgainWhatAMeanOfTooFewWasGiven) {
  LateWorker w(nbsync({kQuorumOfTwo}));
  play_three_windows(w);
  w.mean(50, 50, kTooFewGave);
  w.timer();
  EXPECT_EQ(w.gave(4), -4) << "that of window 3";
  w.step();
  EXPECT_EQ(w.x(), (Floats{8, 8, 0}));
  w.mean(50, 50, kTooFewGave);
  w.step();
  EXPECT_EQ(w.gave(5), -12) << "that, the late step and the last one";
  EXPECT_EQ(w.recorded("steps"), (Figures{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 3}}));
  EXPECT_EQ(w.recorded("late"), (Figures{{4, 1}, {5, 2}}));
  w.mean(-3, 5, kAllGave);
  w.step();
  EXPECT_EQ(w.x(), (Floats{5, 5, 5}));
  EXPECT_EQ(w.gave(6), -4);
  w.mean(1, 5, kAllGave);
  w.timer();
  EXPECT_TRUE(w.stands_by(7));
  w.mean(50, 50, kTooFewGave);
  EXPECT_TRUE(w.stands_by(8)) << "what was given to window 6 is in its mean";
  w.mean(1, 5, kOthersGave);
  EXPECT_FALSE(w.takes_part(9)) << "after a mean of too few a window waits again";
  w.timer();
  EXPECT_TRUE(w.stands_by(9));
}

// A step that is late ends while a mean of too few has left something to be given again, and the
// next window waits for a verdict.
TEST_P(DeadlineWorker, NBSyncAddsLateProgressToWhatIsGivenAgain) {
  LateWorkerConfig config = nbsync({kQuorumOfTwo});
  config.self = 0;  // the reporter
  config.stop.report_every = 1;
  LateWorker w(config);
  play_three_windows(w, /*scores=*/true);
  w.mean(50, 50, kTooFewGave);
  w.timer();
  EXPECT_FALSE(w.takes_part(4)) << "the verdict on round 2 is missing";
  w.step();
  w.score(2);
  EXPECT_EQ(w.gave(4), -8);
}

TEST_P(DeadlineWorker, NBSyncDiscardsAtTheEndWhatIsInNoMean) {
  for (const bool is_late : {false, true}) {
    SCOPED_TRACE(is_late);
    LateWorkerConfig config = nbsync({kQuorumOfTwo});
    config.stop.max_rounds = 4;
    LateWorker w(config);
    play_three_windows(w);
    w.mean(50, 50, kTooFewGave);
    if (is_late) w.timer();
    EXPECT_FALSE(w.has_finished());
    w.step();
    EXPECT_TRUE(w.has_finished() && !w.computes());
    EXPECT_EQ(w.x(), (Floats{8, 8, 0}));
    EXPECT_EQ(w.recorded("late_dropped"), (Figures{{4, is_late ? 2. : 1.}}));
  }
}

// --- a node that comes back

// Rank 1 takes part in the senior worker's last round and in the current one without contributing.
// Then it gets what the senior worker has sent to it.
void bring_back(LateWorker& back, const LateWorker& senior) {
  back.see(kRankOneIsBack);
  back.others_at(senior.rounds_done() - 1);
  back.others_at(senior.rounds_done());
  int carried = 0;
  for (const Send& send : senior.sends()) {
    if (send.to != 1 || !send.message.is_bulk()) continue;
    back.deliver(0, send.message);
    ++carried;
  }
  EXPECT_EQ(carried, 1);
}

// The senior worker is late, or has an update to give: neither is the returned node's. Nor does the
// state wait for the end of the senior's steps.
TEST_P(DeadlineWorker, FedAvgReturnsWithoutTheStepsOfTheSender) {
  for (const bool are_done : {false, true}) {
    SCOPED_TRACE(are_done);
    LateWorkerConfig config = fedavg();
    config.self = 0;
    LateWorker senior(config);
    senior.timer();
    if (are_done) senior.step(), senior.step();
    senior.see(kRankOneIsBack);
    senior.mean(1, 5, {2});
    EXPECT_EQ(senior.computes(), !are_done);
    config.self = 1;
    config.returns = true;
    LateWorker back(config);
    bring_back(back, senior);
    EXPECT_EQ(back.x(), (Floats{9, 9, 5}));
    EXPECT_TRUE(back.stands_by(1) && !back.computes());
    back.mean(1, 5, {2});
    EXPECT_TRUE(back.computes() && !back.takes_part(2));
    back.step(), back.step();
    EXPECT_EQ(back.gave(2), -7.5f);
    EXPECT_TRUE(back.recorded("late").empty());
  }
}

// Its mean was used, or refused; its windows say nothing of the returned node's.
TEST_P(DeadlineWorker, NBSyncReturnsWithoutTheProgressOfTheSender) {
  for (const bool is_used : {false, true}) {
    SCOPED_TRACE(is_used);
    LateWorkerConfig config = is_used ? nbsync() : nbsync({kQuorumOfTwo});
    config.self = 0;
    LateWorker senior(config);
    play_three_windows(senior);
    senior.see(kRankOneIsBack);
    senior.mean(1, 5, kTooFewGave);
    senior.timer();
    EXPECT_EQ(senior.gave(4), is_used ? std::nullopt : std::optional(-4.f));
    config.self = 1;
    config.returns = true;
    LateWorker back(config);
    bring_back(back, senior);
    const float w_4 = is_used ? 9 : 8;
    EXPECT_EQ(back.x(), (Floats{w_4, w_4, is_used ? 5.f : 0.f}));
    EXPECT_TRUE(back.stands_by(4) && !back.computes());
    back.mean(1, 5, kOthersGave);
    EXPECT_EQ(back.x(), (Floats{w_4 + 1, w_4 + 1, 5}));
    EXPECT_TRUE(back.stands_by(5) && back.computes());
    back.mean(1, 5, kOthersGave);
    EXPECT_TRUE(!back.takes_part(6) && !back.has_timer()) << "a step, without a deadline as yet";
    back.step();
    EXPECT_EQ(back.x(), (Floats{w_4 + 2, w_4 + 2, 5}));
    EXPECT_EQ(back.gave(6), -(w_4 + 1) / 2);
    EXPECT_EQ(back.recorded("staleness"), (Figures{{6, 1}}));
  }
}

}  // namespace
}  // namespace longhaul::sync
