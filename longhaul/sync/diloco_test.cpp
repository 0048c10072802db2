// Invariants:
// steps = 1, SGD inside, outer rate 1 and momentum 0 equals bsp (1e-6): fedavg_test.cpp.
// A constant update moves X by 1.33 of it first, and by 7 of it in the limit.
// sparse_loco:
// Sent and kept values add up: codec/registry_test.cpp.
// All values unquantised equal diloco with outer rate 1, momentum 0, bit for bit. Sites are
//         bit-identical; checkpoints contain residuals.
#include <gtest/gtest.h>

#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::plain_job;
using testing::Quadratic;
using testing::TestJob;
using namespace std::string_literals;

std::vector<Setting> preset(std::string_view table) {
  std::vector<Setting> settings;
  for (const Preset& p : testing::strategy_named("diloco").presets)
    if (p.table == table) settings.push_back({std::string(p.key), p.value, "", 0});
  return settings;
}

const Setting kThreeSteps{"steps", {std::int64_t{3}}};

// DiLoCo's job, with these settings of [outer].
TestJob::Config diloco_job(std::int64_t steps, std::vector<Setting> outer,
                           std::vector<Quadratic::Config> workers, Round rounds) {
  TestJob::Config config = plain_job("diloco", {{"steps", {steps}}}, std::move(workers), rounds);
  config.outer = std::move(outer);
  return config;
}

// Targets so far away that every update is 1 in each element.
TEST(DiLoCo, R3_24_AConstantUpdateMovesByOneAndAThirdFirstAndSevenInTheEnd) {
  for (Round rounds : {1u, 2u, 200u, 201u}) {
    const Quadratic::Config learner{.target = 1e8f, .slope = 0, .start = 0, .rate = 1e-8f};
    auto job = TestJob::ended(diloco_job(1, preset("outer"), {learner, learner}, rounds));
    // Sum of the first `rounds` steps of 0.7 (1 + 0.9 buf), buf <- 0.9 buf + 1.
    double x = 0, buf = 0;
    for (Round r = 0; r < rounds; ++r) x += 0.7 * (1 + 0.9 * (buf = 0.9 * buf + 1));
    EXPECT_NEAR(job.params(1)[3], x, 1e-3 * x) << rounds;
    if (rounds == 1) EXPECT_NEAR(job.params(1)[3], 1.33, 1e-5);
    if (rounds == 201) EXPECT_NEAR(x - 7 * 201, -0.7 * 9 * 9, 1e-3) << "the start-up cost is over";
  }
}

TEST(DiLoCo, TheInnerOptimiserKeepsItsState) {
  const Quadratic::Config learner{.start = 1, .rate = 0.1f, .momentum = 0.9f};
  auto job = TestJob::ended(diloco_job(3, {}, {learner}, 3));
  Quadratic plain(8, learner);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(plain.step(LocalStep{}));
  testing::expect_near(job.params(0), plain.params(), 1e-6);
}

std::vector<Setting> codec_of(const std::string& kind, double ratio) {
  return {
      {"kind", {kind}}, {"ratio", {ratio}}, {"error_feedback", {true}}, {"feedback_decay", {0.95}}};
}

TestJob::Config sparse_job(std::vector<Setting> codec, std::vector<Quadratic::Config> workers,
                           Round rounds) {
  TestJob::Config config = plain_job("sparse_loco", {kThreeSteps}, std::move(workers), rounds);
  config.codec = std::move(codec);
  return config;
}

// all values of a chunk, unquantised, are DiLoCo with outer rate 1 and momentum 0.
TEST(SparseLoCo, R3_29_OfAllValuesEqualsDiLoCoWithoutOuterMomentum) {
  const auto workers = learners(3, {.start = 1, .rate = 0.1f, .momentum = 0.5f, .buffers = 2});
  auto sparse = TestJob::ended(sparse_job(codec_of("top_k", 1), workers, 6));
  auto diloco = TestJob::ended(
      diloco_job(3, {{"kind", {"nesterov"s}}, {"rate", {1.0}}, {"momentum", {0.0}}}, workers, 6));
  for (Rank rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(sparse.finished[rank], 1);
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_EQ(sparse.params(rank)[i], diloco.params(rank)[i]) << rank << " " << i;
  }
}

// A quarter of the values a round, in four levels: all hold the same bits, near what all want.
TEST(SparseLoCo, OfAFewValuesAllHoldTheSameBitsNearTheMeanOfTheTargets) {
  const auto three = learners(3, {.start = 1, .rate = 0.1f});
  auto job = TestJob::ended(sparse_job(codec_of("q_top_k", 0.25), three, 60));
  auto dense = TestJob::ended(sparse_job({}, three, 60));
  for (std::size_t i = 0; i < 8; ++i) {
    for (Rank rank = 1; rank < 3; ++rank) EXPECT_EQ(job.params(rank)[i], job.params(0)[i]);
    EXPECT_NEAR(job.params(0)[i], dense.params(0)[i], 0.3) << i;
  }
}

TEST(DiLoCo, SavingAndLoadingAfterAnyEventChangesNothing) {
  const auto three = learners(3, {.momentum = 0.5f, .buffers = 2});
  EXPECT_EQ(testing::changed_by_saving(diloco_job(3, preset("outer"), three, 4)), "");
}

TEST(SparseLoCo, PresetsItsCodecAndTakesNoOuterOptimiser) {
  const SyncEntry entry = testing::strategy_named("sparse_loco");
  EXPECT_FALSE(entry.traits.takes_outer);
  std::vector<std::string> codec;
  for (const Preset& preset : entry.presets)
    if (preset.table == "codec")
      codec.push_back(std::string(preset.key) + " = " + to_text(preset.value));
  const std::vector<std::string> expected = {"kind = \"q_top_k\"",    "ratio = 0.015625",
                                             "chunk = 4096",          "mean_of_senders = true",
                                             "error_feedback = true", "feedback_decay = 0.95"};
  EXPECT_EQ(codec, expected);
}

// Residuals are state: a decaying error feedback goes on from a checkpoint.
TEST(SparseLoCo, SavingAndLoadingAfterAnyEventChangesNothing) {
  const auto three = learners(3, {.momentum = 0.5f, .buffers = 2});
  EXPECT_EQ(testing::changed_by_saving(sparse_job(codec_of("q_top_k", 0.25), three, 4)), "");
}

}  // namespace
}  // namespace longhaul::sync
