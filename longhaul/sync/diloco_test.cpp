#include <gtest/gtest.h>

#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::Quadratic;
using testing::TestJob;
using namespace std::string_literals;

std::vector<Setting> preset(std::string_view table) {
  std::vector<Setting> settings;
  for (const Preset& p : testing::strategy_named("diloco").presets)
    if (p.table == table) settings.push_back({std::string(p.key), p.value, "", 0});
  return settings;
}

// Targets so far away that every update is 1 in each element.
TEST(DiLoCo, R3_24_AConstantUpdateMovesByOneAndAThirdFirstAndSevenInTheEnd) {
  for (Round rounds : {1u, 2u, 200u, 201u}) {
    const Quadratic::Config learner{.target = 1e8f, .slope = 0, .start = 0, .rate = 1e-8f};
    TestJob job({.sync = "diloco",
                 .settings = {{"steps", {std::int64_t{1}}}},
                 .outer = preset("outer"),
                 .learners = {learner, learner},
                 .stop = {.max_rounds = rounds}});
    job.run();
    // Sum of the first `rounds` steps of 0.7 (1 + 0.9 buf), buf <- 0.9 buf + 1.
    double x = 0, buf = 0;
    for (Round r = 0; r < rounds; ++r) x += 0.7 * (1 + 0.9 * (buf = 0.9 * buf + 1));
    EXPECT_NEAR(job.params(1)[3], x, 1e-3 * x) << rounds;
    if (rounds == 1) {
      EXPECT_NEAR(job.params(1)[3], 1.33, 1e-5);
    }
    if (rounds == 201) {  // what the start-up cost is behind it
      EXPECT_NEAR(x - 7 * 201, -0.7 * 9 * 9, 1e-3);
    }
  }
}

TEST(DiLoCo, TheInnerOptimiserKeepsItsState) {
  const Quadratic::Config learner{.start = 1, .rate = 0.1f, .momentum = 0.9f};
  TestJob job({.sync = "diloco",
               .settings = {{"steps", {std::int64_t{3}}}},
               .learners = {learner},
               .stop = {.max_rounds = 3}});
  job.run();
  Quadratic plain(8, learner);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(plain.step(LocalStep{}));
  testing::expect_near(job.params(0), plain.params(), 1e-6);
}

const Setting kThreeSteps{"steps", {std::int64_t{3}}};

std::vector<Setting> codec_of(const std::string& kind, double ratio) {
  return {
      {"kind", {kind}}, {"ratio", {ratio}}, {"error_feedback", {true}}, {"feedback_decay", {0.95}}};
}

// all values of a chunk, unquantised, are DiLoCo with outer rate 1 and momentum 0.
TEST(SparseLoCo, R3_29_OfAllValuesEqualsDiLoCoWithoutOuterMomentum) {
  const auto workers = learners(3, {.start = 1, .rate = 0.1f, .momentum = 0.5f, .buffers = 2});
  TestJob sparse({.sync = "sparse_loco",
                  .settings = {kThreeSteps},
                  .codec = codec_of("top_k", 1),
                  .learners = workers,
                  .stop = {.max_rounds = 6}});
  TestJob diloco({.sync = "diloco",
                  .settings = {kThreeSteps},
                  .outer = {{"kind", {"nesterov"s}}, {"rate", {1.0}}, {"momentum", {0.0}}},
                  .learners = workers,
                  .stop = {.max_rounds = 6}});
  sparse.run();
  diloco.run();
  for (Rank rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(sparse.finished[rank], 1);
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_EQ(sparse.params(rank)[i], diloco.params(rank)[i]) << rank << " " << i;
  }
}

// A quarter of the values a round, in four levels: all hold the same bits, near what all want.
TEST(SparseLoCo, OfAFewValuesAllHoldTheSameBitsNearTheMeanOfTheTargets) {
  TestJob job({.sync = "sparse_loco",
               .settings = {kThreeSteps},
               .codec = codec_of("q_top_k", 0.25),
               .learners = learners(3, {.start = 1, .rate = 0.1f}),
               .stop = {.max_rounds = 60}});
  TestJob dense({.sync = "sparse_loco",
                 .settings = {kThreeSteps},
                 .learners = learners(3, {.start = 1, .rate = 0.1f}),
                 .stop = {.max_rounds = 60}});
  job.run();
  dense.run();
  for (std::size_t i = 0; i < 8; ++i) {
    for (Rank rank = 1; rank < 3; ++rank) EXPECT_EQ(job.params(rank)[i], job.params(0)[i]);
    EXPECT_NEAR(job.params(0)[i], dense.params(0)[i], 0.3) << i;
  }
}

TEST(DiLoCo, SavingAndLoadingAfterAnyEventChangesNothing) {
  const TestJob::Config config{.sync = "diloco",
                               .settings = {{"steps", {std::int64_t{3}}}},
                               .outer = preset("outer"),
                               .learners = learners(3, {.momentum = 0.5f, .buffers = 2}),
                               .stop = {.max_rounds = 4}};
  EXPECT_EQ(testing::changed_by_saving(config), "");
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
  const TestJob::Config config{.sync = "sparse_loco",
                               .settings = {kThreeSteps},
                               .codec = codec_of("q_top_k", 0.25),
                               .learners = learners(3, {.momentum = 0.5f, .buffers = 2}),
                               .stop = {.max_rounds = 4}};
  EXPECT_EQ(testing::changed_by_saving(config), "");
}

}  // namespace
}  // namespace longhaul::sync
