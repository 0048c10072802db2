#include "longhaul/sync/diloco.h"

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
  for (const Preset& p : DiLoCo::entry().presets)
    if (p.table == table) settings.push_back({std::string(p.key), p.value, "", 0});
  return settings;
}

TEST(DiLoCo, R3_23_OneStepOfSgdWithoutMomentumEqualsBsp) {
  const auto equal = learners(3, {.start = 1, .rate = 0.1f, .samples = 4, .buffers = 2});
  TestJob diloco({.sync = "diloco",
                  .settings = {{"steps", {std::int64_t{1}}}},
                  .outer = {{"kind", {"nesterov"s}}, {"rate", {1.0}}, {"momentum", {0.0}}},
                  .learners = equal,
                  .stop = {.max_rounds = 12}});
  TestJob bsp({.learners = equal, .stop = {.max_rounds = 12}});
  diloco.run();
  bsp.run();
  for (Rank rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(diloco.finished[rank], 1);
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_NEAR(diloco.params(rank)[i], bsp.params(rank)[i], 1e-6 * bsp.params(rank)[i]);
  }
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
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(job.params(0)[i], plain.params()[i], 1e-6);
}

TEST(DiLoCo, SavingAndLoadingAfterAnyEventChangesNothing) {
  const TestJob::Config config{.sync = "diloco",
                               .settings = {{"steps", {std::int64_t{3}}}},
                               .outer = preset("outer"),
                               .learners = learners(3, {.momentum = 0.5f, .buffers = 2}),
                               .stop = {.max_rounds = 4}};
  EXPECT_EQ(testing::changed_by_saving(config), "");
}

TEST(DiLoCo, AnUpdateThatIsNotFiniteEndsTheRun) {
  auto all = learners(2, {});
  all[0].rate = 1e30f;
  TestJob job({.sync = "diloco", .learners = all});
  job.run();
  EXPECT_NE(job.failures[0].find("diloco, round 0, site site0 (rank 0)"), std::string::npos)
      << job.failures[0];
}

}  // namespace
}  // namespace longhaul::sync
