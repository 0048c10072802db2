// What shadowsync promises in time and bytes: synchronisation never delays a step, whatever its
// messages take.
#include <gtest/gtest.h>

#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kTrainers = 4;
constexpr Time kStep = 50ms;

// One-way delays of 20 ms and a server apart, of kind easgd; all times `slower` times as long.
JobSpec shadow_spec(const std::string& variant, int slower = 1) {
  JobSpec spec{.parts = plain(variant_named(sync_variants(), variant), overlay_variants().at(0)),
               .workers = kTrainers,
               .one_site_each = true,
               .server_apart = true,
               .size = 1000,
               .buffers = 0,
               .rounds = 6,
               .phantom = true};
  Tables tables;
  for (std::uint32_t site = 0; site <= kTrainers; ++site) {
    const auto rate = flow::bytes_per_second(80.0 / slower);
    tables.network.sites.push_back({rate, rate, {}, 0ms});
    tables.network.site_of.push_back(site);
    tables.speeds.push_back({kStep, sim::JitteredSteps::Jitter::uniform, 0.2});
  }
  tables.network.link = {{}, slower * 20ms};
  spec.tables = tables;
  return spec;
}

// When steps were asked for, and the figures that were recorded.
struct Log final : sim::Watcher {
  void acted(Time now, Rank rank, const Action& action) override {
    if (std::holds_alternative<ComputeStep>(action)) steps[rank].push_back(now);
    if (const auto* record = std::get_if<Record>(&action))
      figures[record->name][rank].push_back(record->value);
  }
  std::map<Rank, std::vector<Time>> steps;
  std::map<std::string, std::map<Rank, std::vector<double>>> figures;
};

Log log_of(const JobSpec& spec) {
  Log log;
  Job job(spec);
  job.world().watch(log);
  EXPECT_TRUE(runs(job));
  EXPECT_TRUE(job.bad_messages.empty()) << job.bad_messages.front();
  return log;
}

// sync/shadowsync_test.cpp, invariant 8. A round takes 2 delays, an exchange with the centre 4.
TEST(ShadowSync, SlowMessagesChangeTheTimeOfNoStep) {
  const std::pair<const char*, int> kinds[] = {
      {"shadowsync", 2}, {"shadowsync_bmuf", 2}, {"shadowsync_easgd", 4}};
  for (const auto& [variant, delays] : kinds) {
    SCOPED_TRACE(variant);
    const Log fast = log_of(shadow_spec(variant)), slow = log_of(shadow_spec(variant, 100));
    for (Rank rank = 0; rank < kTrainers; ++rank) {
      const std::vector<Time>&a = fast.steps.at(rank), &b = slow.steps.at(rank);
      const std::size_t both = std::min(a.size(), b.size());
      ASSERT_GT(both, 8u);
      EXPECT_TRUE(std::equal(a.begin(), a.begin() + std::ptrdiff_t(both), b.begin()));
      const double expected = delays * 2.0 / seconds(kStep);
      const auto& gaps = slow.figures.at("gap").at(rank);
      for (std::size_t round = 1; round < gaps.size(); ++round)
        EXPECT_NEAR(gaps[round], expected, 0.05 * expected) << round;
    }
  }
}

// sync/shadowsync_test.cpp, invariant 11: bytes of a round as in docs/costs.md.
TEST(ShadowSync, ARoundMovesTheBytesOfItsExchange) {
  const double n = kTrainers;
  for (const bool is_elastic : {false, true}) {
    JobSpec spec = shadow_spec(is_elastic ? "shadowsync_easgd" : "shadowsync");
    spec.size = 2'000'000;
    spec.chunk_bytes = 256 * 1024;
    Log log;
    Job job(spec);
    job.world().watch(log);
    ASSERT_TRUE(job.run());
    const double bytes = double(spec.size) * 4;
    for (Rank rank = 0; rank < kTrainers; ++rank) {
      const double exchanges = double(log.figures.at("gap").at(rank).size());
      const double each = is_elastic ? bytes : 2 * (n - 1) / n * bytes;
      // The mean that the run ends with, and the centre's first values: one vector at most, each.
      const double apart = is_elastic ? 3.1 * bytes : 0.01 * exchanges * each;
      EXPECT_NEAR(double(job.witness().bytes_from(rank)), exchanges * each, apart);
      EXPECT_NEAR(double(job.witness().bytes_to(rank)), exchanges * each, apart);
    }
  }
}

TEST(ShadowSync, RoundsBeginNoEarlierThanTheIntervalAndPausedTrainersWakeUp) {
  for (const char* variant : {"shadowsync", "shadowsync_easgd"}) {
    SCOPED_TRACE(variant);
    for (const bool pauses : {false, true}) {
      JobSpec spec = shadow_spec(variant);
      spec.parts.sync.settings.push_back({"min_interval_s", {2.0}});
      if (pauses) spec.parts.sync.settings.push_back({"max_gap", {std::int64_t{7}}});
      const Log log = log_of(spec);
      for (const auto& [rank, gaps] : log.figures.at("gap"))
        for (std::size_t round = 1; round < gaps.size(); ++round)
          EXPECT_NEAR(gaps[round], pauses ? 7 : 40, pauses ? 0 : 4);
    }
  }
}

// Steps of all trainers over the time that `lanes` lanes take for as many.
double utilisation(const std::string& mode, int lanes, int steps, Time step) {
  JobSpec spec = shadow_spec("shadowsync_easgd");
  spec.rounds = Round(kGate && lanes > 1 ? 48 : 40 * lanes);
  spec.steps = std::uint32_t(steps);
  for (auto& speed : spec.tables->speeds) speed = {step, sim::JitteredSteps::Jitter::none, 0};
  spec.parts.sync.settings.push_back({"mode", {mode}});
  spec.parts.sync.settings.push_back({"lanes", {std::int64_t{lanes}}});
  const Log log = log_of(spec);
  double rate = 0;
  for (const auto& [rank, at] : log.steps)
    rate += double(at.size()) / seconds(at.back() - at.front()) * seconds(step) / kTrainers;
  return lanes > 1 ? rate / 2 : rate;  // a lane's step is a gradient and its application
}

// In the foreground a lane stands still for its own exchange of 4 delays, T = 80 ms, and the others
// go on: of k steps of m t each and T, k m t are steps.
TEST(ShadowSync, ALaneThatExchangesHoldsUpNoOther) {
  constexpr int kLanes = 8, kEvery = 3;
  constexpr Time kEach = 5ms;
  const double lane = kLanes * 0.005, expected = kEvery * lane / (kEvery * lane + 0.080);
  EXPECT_NEAR(utilisation("foreground", kLanes, kEvery, kEach), expected, 0.05 * expected);
  EXPECT_NEAR(utilisation("foreground", 1, kEvery, kEach), 0.015 / 0.095, 0.05 * 0.015 / 0.095);
  EXPECT_NEAR(utilisation("background", kLanes, kEvery, kEach), 1, 0.01);
}

// One trainer with two lanes, each of which steps and then exchanges: a vector down, one up, and
// three more delays. The directions are free of each other, so the lanes, half a period apart, are
// never in each other's way, if what carries no vector does not wait behind those of the other.
TEST(ShadowSync, RequestsDoNotWaitBehindTheVectorsOfOtherLanes) {
  constexpr double kMbps = 80, kDelay_s = 0.005, kEach_s = 0.010;
  JobSpec spec = shadow_spec("shadowsync_easgd");
  spec.workers = 1;
  spec.size = 500'000;
  spec.chunk_bytes = 64 * 1024;
  spec.rounds = 60;
  spec.steps = 1;
  spec.parts.sync.settings.push_back({"mode", {std::string("foreground")}});
  spec.parts.sync.settings.push_back({"lanes", {std::int64_t{2}}});
  Tables& tables = *spec.tables;
  const sim::Rate rate = flow::bytes_per_second(kMbps);
  tables.network.sites.assign(2, {rate, rate, {}, 0ms});
  tables.network.site_of = {0, 1};
  tables.network.link = {{}, from_seconds(kDelay_s)};
  tables.speeds.assign(2, {from_seconds(kEach_s), sim::JitteredSteps::Jitter::none, 0});
  const Log log = log_of(spec);
  const double vector_s = double(spec.size) * 4 / (kMbps * 125000);
  const double lane_s = 2 * vector_s + 4 * kDelay_s + 2 * kEach_s;
  const auto& waits = log.figures.at("wait_s").at(0);
  double sum = 0;
  for (const double wait : waits) sum += wait;
  EXPECT_NEAR(sum / double(waits.size()), lane_s - 2 * kEach_s, 0.05 * lane_s);
}

// sync/shadowsync_test.cpp, invariant 9: of a phantom, too, all stop in the same round.
TEST(ShadowSync, PhantomsEndWhenAllAreDone) {
  for (const char* variant : {"shadowsync", "shadowsync_foreground", "shadowsync_easgd"}) {
    if (kGate && variant == std::string("shadowsync")) continue;
    JobSpec spec = shadow_spec(variant, /*slower=*/20);
    spec.rounds = 1'000'000;
    spec.tables->speeds[2].mean = 10 * kStep;
    spec.parts.sync.settings.push_back({"epochs", {std::int64_t{1}}});
    const Log log = log_of(spec);
    for (Rank rank = 0; rank < kTrainers; ++rank) EXPECT_EQ(log.steps.at(rank).size(), 200u);
  }
}

}  // namespace
}  // namespace longhaul::conformance
