// Strategies for unequal machines, as whole jobs in the simulator: what their papers' arithmetic
// says of times, and what must hold whatever the speeds are.
#include <cmath>
#include <set>

#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

constexpr double kFast = kGate ? 0.12 : 0.04;

// Workers on access links of their own, around a server whose port is no limit.
struct Star {
  std::string sync = "nbsync";
  std::vector<Setting> settings = {};
  std::vector<double> step_s = {kFast, kFast, kFast, kFast, 6, 6};
  double transfer_s = 5.415;  // of the vector, each way
  Time delay = 0ms;
  double jitter = 0;
  sim::StepTimeDrift drift = {};
  Round rounds = 12;
  std::uint64_t seed = 1;
};

JobSpec unequal_spec(const Star& star) {
  JobSpec spec;
  spec.parts = plain(variant_named(sync_variants(), star.sync),
                     variant_named(overlay_variants(), "hub_sequential"));
  spec.parts.sync.settings = star.settings;
  if (star.sync == "nbsync")  // windows of any length, not those of the suites
    spec.parts.sync.settings.push_back({"max_steps", {std::int64_t{0}}});
  spec.workers = std::uint32_t(star.step_s.size());
  spec.one_site_each = spec.server_apart = spec.phantom = true;
  spec.size = 1'000'000;
  spec.chunk_bytes = 4 * 40'000;
  spec.rounds = star.rounds;
  spec.seed = star.seed;
  spec.stop.report_every = 100000;
  Tables tables;
  const auto workers = std::uint32_t(star.step_s.size());
  const sim::Rate rate = 4e6 * 1.0006 / star.transfer_s;
  for (std::uint32_t site = 0; site <= workers; ++site) {
    tables.network.sites.push_back(site < workers ? sim::FifoConfig::Site{rate, rate, {}, {}}
                                                  : sim::FifoConfig::Site{{}, {}, {}, {}});
    tables.network.site_of.push_back(site);
  }
  tables.network.link = {{}, star.delay};
  using Jitter = sim::JitteredSteps::Jitter;
  for (const double s : star.step_s)
    tables.speeds.push_back({.mean = from_seconds(s),
                             .jitter = star.jitter > 0 ? Jitter::lognormal : Jitter::none,
                             .amount = star.jitter,
                             .drift = star.drift,
                             .site = std::uint32_t(tables.speeds.size())});
  tables.speeds.push_back({.mean = 1s});
  spec.tables = tables;
  return spec;
}

// What each worker says of its rounds, and the steps that it asked for.
struct StarRun {
  explicit StarRun(const Star& star) : StarRun(unequal_spec(star)) {}
  explicit StarRun(const JobSpec& spec) : job(spec) {
    job.world().watch(rounds);
    EXPECT_TRUE(runs(job));
  }
  double share_computing(Rank rank) {
    return seconds(job.world().figures(rank).computing) / seconds(job.world().now());
  }
  Job job;
  Records rounds;
};

// Of steady rounds: mean time from one to the next.
double period(const Records& rounds, const std::string& name = "steps") {
  const auto& of_one = rounds.times.at(name).at(0);
  const Round first = 4, last = of_one.rbegin()->first;
  return seconds(of_one.at(last) - of_one.at(first)) / double(last - first);
}

// Local steps of all workers a second.
double step_rate(const Star& star) {
  StarRun run(star);
  auto& rounds = run.rounds;
  double sum = 0;
  for (const auto& [rank, of_one] : rounds.values.at("steps")) {
    double taken = 0;
    for (const auto& [round, steps] : of_one)
      if (round > 4) taken += steps;
    sum += taken / double(of_one.rbegin()->first - 4);
  }
  return sum / period(rounds);
}

// T_sync = 10.83 s, and two steps of the slow ones: 12 s.
TEST(NBSyncJob, Inv10_AWindowIsAWholeNumberOfTheSlowestSteps) {
  StarRun run(Star{});
  auto& rounds = run.rounds;
  EXPECT_NEAR(period(rounds), 12.0, 0.02 * 12);
  for (Rank rank = 0; rank < 6; ++rank) EXPECT_GE(run.share_computing(rank), 0.95) << rank;
}

TEST(NBSyncJob, Inv6_ASlowNetworkCostsNoSteps) {
  const double fast = step_rate({.transfer_s = 0.5, .rounds = kGate ? 12u : 20u});
  const double slow = step_rate({.transfer_s = 50, .rounds = 8});
  EXPECT_NEAR(slow, fast, 0.01 * fast);
}

// Steps of all over those of ESync without a margin: 1 + T_sync / c_s.
TEST(NBSyncJob, StepsOverThoseOfESyncFollowTheFormula) {
  for (const double times : {0.5, 1.0, 3.0, 10.0}) {
    if (kGate && (times == 1.0 || times == 3.0)) continue;
    const double transfer = times * 6 / 2;
    const double ours = step_rate({.transfer_s = transfer, .rounds = kGate ? 10u : 16u});
    const double esync = step_rate({.sync = "esync",
                                    .settings = {{"margin_s", {0.0}}},
                                    .transfer_s = transfer,
                                    .rounds = kGate ? 10u : 16u});
    EXPECT_NEAR(ours / esync, 1 + times, 0.1 * (1 + times)) << times;
  }
}

// Windows fit the step times of a moment, also where these move on while a window is open: nobody
// knows of the drift but by its own steps.
TEST(NBSyncJob, WorkersComputeWhileStepTimesDrift) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    if (seed > cases(3)) continue;
    const Star star{
        .drift = {.deviation = 0.2, .every_s = 10}, .rounds = kGate ? 25u : 40u, .seed = seed};
    StarRun run(star);
    for (Rank rank = 0; rank < 6; ++rank)
      EXPECT_GE(run.share_computing(rank), 0.95) << rank << ", seed " << seed;
    std::set<double> counts;  // of a fast worker: they follow the slow ones' speed and its own
    for (const auto& [round, steps] : run.rounds.values["steps"][0]) counts.insert(steps);
    EXPECT_GT(counts.size(), 10u) << seed;
  }
}

// A star, of networks and speeds of all kinds.
Star any_star(std::uint64_t seed) {
  Random random(seed, {Purpose::test});
  Star star{.delay = Time(std::int64_t(random.below(200)) * 1'000'000),
            .jitter = random.uniform(),
            .rounds = 5,
            .seed = seed};
  star.transfer_s = 0.01 * std::pow(1000.0, random.uniform());
  star.step_s.clear();
  for (std::uint64_t n = 2 + random.below(4); n > 0; --n)
    star.step_s.push_back(0.02 * std::pow(50.0, random.uniform()));
  return star;
}

// A watcher's view of the weak dependency: nobody hands over for a window before all have handed
// over for the one before; every step is handed over once.
void expect_weak_dependency(const Star& star) {
  const std::uint64_t seed = star.seed;
  Job job(unequal_spec(star));
  Records rounds;
  std::map<Rank, std::uint64_t> before;
  rounds.on_record = [&](Rank rank, const Record& record) {
    if (record.name != "steps") return;
    for (Rank other = 0; record.round > 0 && other < star.step_s.size(); ++other)
      EXPECT_TRUE(rounds.values["steps"][other].contains(record.round - 1)) << seed;
    EXPECT_EQ(double(rounds.steps[rank].size() - before[rank]), record.value) << seed;
    EXPECT_GE(record.value, 1);
    before[rank] = rounds.steps[rank].size();
  };
  job.world().watch(rounds);
  ASSERT_TRUE(job.run()) << seed;
  for (const auto& [rank, of_one] : rounds.values["steps"]) EXPECT_EQ(of_one.size(), 5u) << seed;
}

// Also while step times drift.
TEST(NBSyncJob, Inv5_StalenessIsOneWindowAndNoStepIsCountedTwice) {
  for (std::uint64_t seed = 1; seed <= (kGate ? 4 : 1000 / kStride); ++seed) {
    Star star = any_star(seed);
    expect_weak_dependency(star);
    star.drift = {.deviation = 0.5, .every_s = 0.5, .bound = 8};
    expect_weak_dependency(star);
    if (::testing::Test::HasFailure()) return;
  }
}

// Asked ahead, a state server 50 ms away holds nobody up.
TEST(ESyncJob, Inv8_FastWorkersComputeUntilTheyGive) {
  StarRun run(Star{.sync = "esync",
                   .step_s = {0.05, 0.05, 0.2, 4},
                   .transfer_s = 0.5,
                   .delay = 50ms,
                   .rounds = 10});
  auto& rounds = run.rounds;
  for (const Rank rank : {0u, 1u}) {
    double computing = 0, waiting = 0;
    for (Round round = 1; round < 10; ++round) {
      computing += 0.05 * rounds.values["steps"][rank][round];
      waiting += rounds.values["grant_wait_s"][rank][round];
    }
    EXPECT_GT(computing, 9 * 3.0) << rank;
    EXPECT_GE(computing / (computing + waiting), 0.9) << rank;
  }
}

// All updates of a round leave for the server within the longest step of the fast and the margin.
TEST(ESyncJob, Inv3And9_NobodyIsLateOrLongBeforeTheSlowest) {
  StarRun run(Star{.sync = "esync", .step_s = {0.05, 0.3, 1, 4}, .transfer_s = 0.5, .rounds = 8});
  auto& rounds = run.rounds;
  for (Round round = 1; round < 8; ++round) {
    EXPECT_EQ(rounds.values["steps"][3][round], 1) << round;
    const Time slowest = rounds.times["steps"][3][round];
    for (const Rank rank : {0u, 1u, 2u}) {
      EXPECT_LE(rounds.times["steps"][rank][round], slowest) << round << ", " << rank;
      EXPECT_LT(seconds(slowest - rounds.times["steps"][rank][round]), 1 + 2 * 0.05 * 4) << round;
    }
  }
}

// The others wait for the update of a returned worker. It times its first step of the round, and
// takes none on a copy before.
TEST(ESyncJob, AReturnedWorkerDelaysNoRoundByAStep) {
  for (const char* mode : {"leases", "public"}) {
    SCOPED_TRACE(mode);
    JobSpec spec = unequal_spec({.sync = "esync",
                                 .settings = {{"mode", {std::string(mode)}}},
                                 .step_s = {2, 2, 2},
                                 .transfer_s = 0.2,
                                 .rounds = 16});
    spec.world.detect = 500ms;
    Job job(spec);
    Records seen;
    job.world().watch(seen);
    const auto& ends = seen.times["wait_s"][0];
    while (ends.size() < 4) ASSERT_TRUE(job.step());
    job.kill(2);
    while (!job.declared_lost(2)) ASSERT_TRUE(job.step());
    job.restart(2);
    const Round back = ends.rbegin()->first;
    const std::size_t steps_before = seen.values["steps"][2].size();
    while (job.step()) {
    }
    expect_ended_alike(job);
    EXPECT_GE(seen.values["steps"][2].size(), steps_before + 4);
    const auto took = [&](Round round) { return seconds(ends.at(round) - ends.at(round - 1)); };
    for (Round round = back + 2; round < spec.rounds; ++round)
      EXPECT_LT(took(round), 1.5 * took(2)) << round;
  }
}

TEST(FedProxJob, TheDeadlineCutsTheStepsOfTheSlow) {
  Star star{.sync = "fedprox",
            .settings = {{"deadline_s", {3.5}}},
            .step_s = {0.1, 1, 6},
            .transfer_s = 0.5,
            .rounds = 3};
  JobSpec spec = unequal_spec(star);
  spec.steps = 20;
  StarRun run(spec);
  auto& rounds = run.rounds;
  // A reset of the optimiser is an action, too.
  EXPECT_EQ(rounds.steps[0].size(), 3u * (20 + 1));
  EXPECT_EQ(rounds.steps[1].size(), 3u * (4 + 1));
  EXPECT_EQ(rounds.steps[2].size(), 3u * (1 + 1));
}

// After the first round all train for as long as the slowest needs for its steps, whose number they
// know from what each said of its step time.
TEST(FedSsgdJob, AllTrainForTheTimeOfTheSlowest) {
  JobSpec spec = unequal_spec(
      {.sync = "fedssgd",
       .settings = {{"reading", {std::string("semi")}}, {"max_steps", {std::int64_t{150}}}},
       .step_s = {0.7, 3, 0.1, 7},
       .rounds = 5});
  spec.phantom = false;
  spec.size = 1000;
  spec.steps = 3;
  StarRun run(spec);
  auto& rounds = run.rounds;
  const std::vector<double> steps = {30, 7, 150, 3};  // of 21 s; of the third 210 would fit
  for (const Rank rank : {0u, 1u, 2u, 3u})
    for (Round round = 0; round < 5; ++round)
      EXPECT_EQ(rounds.values["steps"][rank][round], round == 0 ? 3 : steps[rank]) << rank;
}

TEST(NBSyncJob, Inv5_AlsoWhileStepTimesDrift) {
  for (std::uint64_t seed = 1; seed <= (kGate ? 4 : 1000 / kStride); ++seed) {
    Star star = any_star(seed);
    star.drift = {.deviation = 0.5, .every_s = 0.5, .bound = 8};
    expect_weak_dependency(star);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace longhaul::conformance
