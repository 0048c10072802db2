// Deadlines of rounds, as whole jobs in the simulator: a slow worker holds nobody up for longer,
// and what it has computed is in the model once, or said to be lost.
#include <algorithm>
#include <map>

#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/test_job.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;
using SettingList = std::vector<Setting>;

// Each step moves one parameter, that of its rank, by 1, and is of one sample. So the model says of
// each worker how many of its steps are in it.
class CountingLearner final : public WrappedLearner {
 public:
  CountingLearner(std::unique_ptr<Learner> inner, Rank rank)
      : WrappedLearner(std::move(inner)), rank_(rank) {}
  Result<StepResult> step(const Work& work) override {
    StepResult result{.loss = 1, .shard_size = 1};
    if (std::holds_alternative<LocalStep>(work) || std::holds_alternative<ProximalStep>(work)) {
      params()[rank_] += 1;
      result.samples = 1;
    } else if (std::holds_alternative<Gradient>(work)) {
      std::ranges::fill(grads(), 0.0f);
      grads()[rank_] = -1;
    }
    return result;
  }

 private:
  const Rank rank_;
};

// Workers whose steps take 0.1 s; those of the last take 2 s from 3 s on.
struct DeadlineCase {
  std::string name, sync;
  SettingList settings = {};
  SettingList off = {};
  double longest_s = 1;  // from one update of a fast worker to its next
};
void PrintTo(const DeadlineCase& one, std::ostream* out) { *out << one.name; }

Setting real_setting(std::string key, double value) { return {std::move(key), {value}}; }
Setting whole_setting(std::string key, std::int64_t value) { return {std::move(key), {value}}; }
Setting name_setting(std::string key, std::string value) {
  return {std::move(key), {std::move(value)}};
}

const Setting kEqualWeights = name_setting("weights", "equal"),
              kLateDropped = name_setting("late", "drop");

std::vector<DeadlineCase> deadline_cases() {
  std::vector<DeadlineCase> all;
  for (const bool drops : {false, true}) {
    const std::string end = drops ? "_drop" : "_fold";
    const auto add = [&](std::string sync, Setting deadline, SettingList rest, double longest_s) {
      // What is late is kept or dropped by deadline.h: in the gate one of both, but for nbsync,
      // which has windows.
      const bool is_one = (sync == "fedprox") == drops;
      if (kGate && !is_one && sync != "nbsync") return;
      DeadlineCase one{.name = sync + end, .sync = sync, .off = rest, .longest_s = longest_s};
      if (drops) rest.push_back(kLateDropped);
      rest.push_back(std::move(deadline));
      one.settings = std::move(rest);
      all.push_back(std::move(one));
    };
    add("fedavg", real_setting("round_timeout_s", 0.5), {kEqualWeights}, 0.8);
    add("fedprox", real_setting("round_timeout_s", 0.5), {kEqualWeights}, 0.8);
    add("esync", real_setting("round_deadline", 3), {}, 0.8);
    add("nbsync", real_setting("window_deadline", 3), {whole_setting("max_steps", 0)}, 0.8);
  }
  return all;
}

constexpr Round kLateRounds = kGate ? 70 : 90;

struct LateJob {
  std::string sync = "fedavg";
  std::optional<SettingList> settings = {};  // absent: those of the case
  std::string overlay = "hub";
  std::uint32_t workers = 4;
  std::uint32_t slow = 1;  // of them, the last ones
  Round rounds = kLateRounds;
  std::vector<sim::Fault> faults = {};
};

JobSpec late_spec(const LateJob& like) {
  JobSpec spec;
  spec.parts = plain(variant_named(sync_variants(), like.sync),
                     variant_named(overlay_variants(), like.overlay));
  spec.parts.sync.settings = like.settings.value();
  spec.workers = like.workers;
  spec.one_site_each = true;
  spec.size = 64;
  spec.rounds = like.rounds;
  spec.faults = like.faults;
  spec.stop.report_every = 100000;
  spec.watch = [](std::unique_ptr<Learner> inner, Rank rank) {
    return std::make_unique<CountingLearner>(std::move(inner), rank);
  };
  Tables tables = unequal_tables(members_of(spec));
  tables.network = {};
  for (Rank rank = 0; rank < spec.workers; ++rank) {
    tables.network.site_of.push_back(rank);
    tables.network.sites.push_back({});
    tables.speeds[rank] = {.mean = 100ms};
    if (rank + like.slow >= spec.workers)
      tables.speeds[rank].trace = flow::Trace{.at = {0, 3}, .values = {100, 2000}};
  }
  tables.network.link = {{}, 1ms};
  spec.tables = tables;
  return spec;
}

struct LateRun {
  explicit LateRun(const JobSpec& spec) : job(spec), start(job.params(0)) {
    recorded.leaves_out = [](Rank rank, const Record& record) {
      return record.name == "samples_used" && Rank(record.value) != rank;
    };
    job.world().watch(recorded);
    status = job.run();
    took_s = seconds(job.world().now());
  }
  Job job;
  const std::vector<float> start;
  Records recorded;
  // From one update of a worker to its next.
  double longest_s(Rank rank) {
    Time longest{0}, last{0};
    for (const auto& [round, at] : recorded.times["samples_given"][rank]) {
      if (last > Time{0}) longest = std::max(longest, at - last);
      last = at;
    }
    return seconds(longest);
  }
  Status status = Ok{};
  double took_s = 0;
};

// What has moved the model is what workers say that they gave, each in equal share with those of
// its round; and what they gave is all that they computed, but for what they say they discarded.
// `open`: steps at most that the run's end may have cut off, in no round yet.
void expect_conserved(LateRun& ran, std::uint32_t workers, double open = 0) {
  std::map<Round, double> counted;  // workers in the round's mean
  for (Rank rank = 0; rank < workers; ++rank)
    for (const auto& [round, value] : ran.recorded.values["samples_used"][rank]) ++counted[round];
  for (Rank rank = 0; rank < workers; ++rank) {
    double moved = 0, used = 0;
    for (const auto& [round, value] : ran.recorded.values["samples_used"][rank]) {
      const double steps = ran.recorded.values["samples_given"][rank].at(round);
      moved += steps / counted[round];
      used += steps;
    }
    EXPECT_NEAR(double(ran.job.params(0)[rank] - ran.start[rank]), moved, 1e-3) << rank;
    const double rest =
        ran.recorded.sum("samples_computed", rank) - used - ran.recorded.sum("late_dropped", rank);
    EXPECT_GE(rest, 0) << rank;
    EXPECT_LE(rest, open) << rank;
  }
}

struct Deadline : ::testing::TestWithParam<DeadlineCase> {
  JobSpec spec(LateJob like = {}) const {
    like.sync = GetParam().sync;
    if (!like.settings) like.settings = GetParam().settings;
    return late_spec(like);
  }
  bool drops() const { return GetParam().name.ends_with("drop"); }
  // Of nbsync: steps after the last swap are in no window.
  double open() const { return GetParam().sync == "nbsync" ? 30 : 0; }
};
INSTANTIATE_TEST_SUITE_P(Sync, Deadline, ::testing::ValuesIn(deadline_cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Deadline, ALateWorkerHoldsNobodyUpForLonger) {
  LateRun waits(spec({.settings = GetParam().off}));
  LateRun goes_on(spec());
  ASSERT_TRUE(waits.status) << waits.status.error().what;
  ASSERT_TRUE(goes_on.status) << goes_on.status.error().what;
  EXPECT_TRUE(waits.job.all_equal() && goes_on.job.all_equal());
  EXPECT_GE(waits.longest_s(0), 1.5);
  EXPECT_LE(goes_on.longest_s(0), GetParam().longest_s);
  EXPECT_LE(goes_on.took_s, 0.5 * waits.took_s);
  for (const Rank rank : {0u, 1u, 2u})
    EXPECT_EQ(goes_on.recorded.values["samples_used"][rank].size(), kLateRounds) << rank;
  // Before it was slow its updates were in time.
  EXPECT_GE(goes_on.recorded.values["samples_used"][3].size(), 8u);
  EXPECT_LT(goes_on.recorded.values["samples_used"][3].size(), kLateRounds);
}

TEST_P(Deadline, WhatIsComputedIsInTheModelOnceOrSaidToBeLost) {
  LateRun ran(spec());
  ASSERT_TRUE(ran.status) << ran.status.error().what;
  expect_conserved(ran, 4, open());
  const double late = double(ran.recorded.values["late"][3].size());
  const double dropped = double(ran.recorded.values["late_dropped"][3].size());
  if (drops()) {
    EXPECT_EQ(late, 0);
    EXPECT_GE(dropped, 2);
  } else {
    EXPECT_GE(late, 2);
    EXPECT_LE(dropped, 1) << "what the end of the run cut off";
  }
  // New steps begin in the round after an update; each round since then has moved the model.
  for (const auto& [round, missed] : ran.recorded.values["late"][3]) {
    const auto& given = ran.recorded.values["samples_given"][3];
    const Round before = std::prev(given.find(round))->first;
    if (GetParam().sync != "nbsync") EXPECT_EQ(missed, double(round - before - 1)) << round;
  }
  for (const Rank rank : {0u, 1u, 2u}) {
    EXPECT_EQ(ran.recorded.values["late"][rank].size(), 0u);
    EXPECT_EQ(ran.recorded.values["late_dropped"][rank].size(), 0u);
  }
}

// Over overlays that sum in other ways, too.
TEST_P(Deadline, HoldsOverOtherOverlays) {
  for (const char* overlay : {"direct", "ring", "binary"}) {
    if (kGate && overlay == std::string(drops() ? "ring" : "direct")) continue;
    SCOPED_TRACE(overlay);
    LateRun ran(spec({.overlay = overlay, .rounds = kGate ? 20u : 40u}));
    ASSERT_TRUE(ran.status) << ran.status.error().what;
    EXPECT_TRUE(ran.job.all_equal());
    EXPECT_LE(ran.longest_s(0), GetParam().longest_s);
    expect_conserved(ran, 4, open());
  }
}

// If all are late there are means of nobody, and those that follow wait for as long again.
TEST_P(Deadline, AllMayBeLate) {
  for (const std::uint32_t workers : {1u, 3u}) {
    SCOPED_TRACE(workers);
    LateRun ran(spec({.workers = workers, .slow = workers}));
    ASSERT_TRUE(ran.status) << ran.status.error().what;
    EXPECT_TRUE(ran.job.all_equal());
    expect_conserved(ran, workers, open());
    EXPECT_GE(ran.took_s, 15) << "rounds of nobody follow each other without end";
  }
}

TEST_P(Deadline, ADeadlineThatNobodyMissesChangesNothing) {
  SettingList far = GetParam().settings;
  far.back().value = Value{1e6};
  LateRun without(spec({.settings = GetParam().off, .rounds = 20}));
  LateRun with(spec({.settings = far, .rounds = 20}));
  ASSERT_TRUE(without.status && with.status);
  EXPECT_EQ(without.job.params(0), with.job.params(0));
  EXPECT_EQ(without.took_s, with.took_s);
}

// Fewer than min_clients move nothing; what was given is given again until all have.
TEST_P(Deadline, AMeanOfTooFewIsNotUsed) {
  SettingList settings = GetParam().settings;
  settings.push_back(whole_setting("min_clients", 4));
  LateRun ran(spec({.settings = settings}));
  ASSERT_TRUE(ran.status) << ran.status.error().what;
  EXPECT_TRUE(ran.job.all_equal());
  std::map<Round, int> counted;
  for (Rank rank = 0; rank < 4; ++rank)
    for (const auto& [round, value] : ran.recorded.values["samples_used"][rank]) ++counted[round];
  EXPECT_GE(counted.size(), 15u);
  EXPECT_LT(counted.size(), kLateRounds);
  for (const auto& [round, workers] : counted) EXPECT_EQ(workers, 4) << round;
  EXPECT_GE(ran.took_s, 15) << "rounds of too few follow each other without end";
  // What was given last may have been to a mean of too few.
  expect_conserved(ran, 4, open() + 10);
}

// The late worker is lost at any event, also while what it takes part in without giving is on its
// way.
TEST_P(Deadline, TheOthersGoOnWhenALateWorkerIsLost) {
  const JobSpec like = spec({.rounds = 30});
  const std::uint64_t events = events_of(like);
  for (std::uint64_t at = events / 3; at < events; at += kGate ? events / 2 : 7 * kStride) {
    JobSpec lost = like;
    lost.faults = {crash(3, at)};
    LateRun ran(lost);
    ASSERT_TRUE(ran.status) << at << ": " << ran.status.error().what;
    ASSERT_TRUE(ran.job.all_equal()) << at;
    ASSERT_TRUE(ran.job.bad_messages.empty()) << at << ": " << ran.job.bad_messages.front();
  }
}

// The node that others would ask first (server of the overlay, states of esync) is late, and lost.
TEST_P(Deadline, TheLateOneMayBeTheFirst) {
  JobSpec like = spec({.rounds = 30});
  std::swap(like.tables->speeds.front(), like.tables->speeds.back());
  LateRun ran(like);
  ASSERT_TRUE(ran.status) << ran.status.error().what;
  expect_conserved(ran, 4, open());
  const std::uint64_t events = ran.job.world().counters().events;
  for (std::uint64_t at = events / 3; at < events; at += kGate ? events / 2 : 23 * kStride) {
    like.faults = {crash(0, at)};
    LateRun lost(like);
    ASSERT_TRUE(lost.status) << at << ": " << lost.status.error().what;
    ASSERT_TRUE(lost.job.all_equal()) << at;
  }
}

// A node comes back while the one that is to send it the model, the lowest, is late.
TEST_P(Deadline, ANodeMayReturnWhileTheSenderOfTheModelIsLate) {
  JobSpec like = spec({.rounds = kGate ? 40 : kLateRounds});
  like.world.detect = 20ms;
  std::swap(like.tables->speeds.front(), like.tables->speeds.back());
  const std::uint64_t events = events_of(like);
  int returned = 0;
  for (std::uint64_t at = events / 4; at < events; at += kGate ? events / 2 : 31 * kStride) {
    like.faults = {crash(2, at)};
    Job job(like);
    bool more = true;
    while (more && !job.declared_lost(2)) more = job.step();
    if (more) job.restart(2);
    returned += more;
    SCOPED_TRACE(at);
    expect_ends_alike(job);
  }
  EXPECT_GT(returned, 0);
}

TEST_P(Deadline, FewerLiveWorkersThanMinClientsEndTheRun) {
  SettingList settings = GetParam().settings;
  settings.push_back(whole_setting("min_clients", 4));
  LateRun ran(spec(
      {.settings = settings, .faults = {{.kind = sim::Fault::Kind::crash, .rank = 3, .at = 1s}}}));
  ASSERT_FALSE(ran.status);
  EXPECT_TRUE(says(ran.status.error().what, "3 workers are left, [sync] min_clients is 4"));
}

// Three workers hold one kind of data, the fourth another. The fourth takes 20 s a step from 3 s
// on: each round ends at the deadline without its group, which is recorded as missing.
TEST(DeadlineMedian, AGroupThatIsSlowForGoodIsNotWaitedFor) {
  constexpr double kUsual_s = 2 * 0.13 + 2 * 0.05;  // two steps and two delays
  for (const double medians : {2.0, 5.0}) {
    SCOPED_TRACE(medians);
    JobSpec spec = late_spec(
        {.sync = "fedgsync",
         .settings = SettingList{real_setting("round_deadline", medians),
                                 whole_setting("groups", 2), whole_setting("regroup", 1000)},
         .rounds = 40});
    spec.parts.sync.settings.push_back(whole_setting("steps", 2));
    spec.watch = [](std::unique_ptr<Learner> inner, Rank rank) {
      return std::make_unique<CountingLearner>(std::move(inner), rank == 3 ? 58 : 57);
    };
    spec.tables->network.link = {{}, 50ms};
    const Time steps[] = {100ms, 170ms, 320ms, 130ms};
    for (Rank rank = 0; rank < 4; ++rank) spec.tables->speeds[rank] = {.mean = steps[rank]};
    spec.tables->speeds[3].trace = flow::Trace{.at = {0, 3}, .values = {130, 20000}};
    LateRun ran(spec);
    ASSERT_TRUE(ran.status) << ran.status.error().what;
    const auto& rounds = ran.recorded.values["round_s"][0];
    for (const auto& [round, took] : rounds)
      EXPECT_NEAR(took, round < 5 ? kUsual_s : medians * kUsual_s, 0.05 * took) << round;
    EXPECT_GE(ran.recorded.values["missing_group"][0].size(), 30u);
    EXPECT_GE(ran.recorded.values["suspected_group"][0].size(), 1u);
  }
}

TEST(DeadlineSettings, ThoseThatNoRoundCanMeetAreRefused) {
  const Members three{{"oregon"}, {"tokyo"}, {"paris"}};
  for (const double fraction : {0.67, 1.0}) {
    const Status status = sync::testing::status_of(
        "fedavg", {real_setting("fraction", fraction), whole_setting("min_clients", 3)}, three);
    ASSERT_EQ(bool(status), fraction == 1);
    if (!status) EXPECT_TRUE(says(status, "min_clients"));
  }
  for (const double medians : {0.5, 1.0}) {
    const Status status =
        sync::testing::status_of("esync", {real_setting("round_deadline", medians)}, three);
    ASSERT_EQ(bool(status), medians == 1);
    if (!status) EXPECT_TRUE(says(status, "round_deadline"));
  }
}

// Means that depend on who was in time have the bits of a schedule.
TEST(DeadlineSettings, WithATimeoutBitsDependOnTime) {
  const auto bits = [](SettingList settings) {
    return entry_with(sync::testing::strategy_named("fedavg"), {"sync", "", 0, std::move(settings)})
        .traits.bits;
  };
  EXPECT_EQ(bits({}), Bits::rank);
  EXPECT_EQ(bits({real_setting("round_timeout_s", 30)}), Bits::schedule);
}

TEST_P(Deadline, SavingAndLoadingAfterAnyEventChangesNothing) {
  SettingList settings = GetParam().settings;
  settings.push_back(whole_setting("min_clients", 4));
  for (const SettingList& one : {GetParam().settings, settings}) {
    const JobSpec like = spec({.settings = one, .rounds = kGate ? 20u : 40u});
    Job all(like);
    ASSERT_TRUE(all.run());
    auto job = std::make_unique<Job>(like);
    for (std::uint64_t event = 1;; ++event) {
      const Result<bool> more = job->world().step();
      ASSERT_TRUE(more) << more.error().what;
      if (!*more) break;
      if (event % (kGate ? 211 : kStride) != 0) continue;
      auto next = std::make_unique<Job>(like);
      next->load(job->save());
      job = std::move(next);
    }
    EXPECT_EQ(job->witness().hash(), all.witness().hash());
    EXPECT_EQ(job->params(0), all.params(0));
  }
}

}  // namespace
}  // namespace longhaul::conformance
