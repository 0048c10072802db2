// Invariants:
// steps = 1, SGD, fraction 1, equal n_k equals bsp (1e-6).
// Weights are shares that sum to 1: equal updates give the same mean.
// All nodes draw the same S_t.
// A late worker delays no round for longer than the timeout; each update is in the model once, or
// in late_dropped; lost while late; saved and loaded after any event; all late:
// tests/deadline_test.cpp.
// Actions of a worker at each event, at the end of the run, after a return: DeadlineWorker.FedAvg*
// in deadline_test.cpp.
// FedNova rests at the minimum of the sum, for any numbers of steps: StepNorm.* in
// step_norm_test.cpp, FedAvg.EpochsTake*.
#include <gtest/gtest.h>

#include <set>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::plain_job;
using testing::Quadratic;
using testing::TestJob;
using namespace std::string_literals;

Setting set(std::string key, std::int64_t value) { return {std::move(key), {value}}; }

// FedAvg's, and DiLoCo's with an outer optimiser that adds the mean as it is.
TEST(FedAvg, R3_11_OneStepOfSgdWithEqualSharesEqualsBspAndSoDoesDiLoCo) {
  const auto equal = learners(4, {.start = 1, .rate = 0.1f, .samples = 3, .buffers = 2});
  auto bsp = TestJob::ended({.learners = equal, .stop = {.max_rounds = 12}});
  for (const char* sync : {"fedavg", "diloco"}) {
    TestJob::Config config = plain_job(sync, {set("steps", 1)}, equal, 12);
    config.outer = {{"kind", {"nesterov"s}}, {"rate", {1.0}}, {"momentum", {0.0}}};
    auto job = TestJob::ended(config);
    for (Rank rank = 0; rank < 4; ++rank) {
      ASSERT_EQ(job.finished[rank], 1) << sync;
      testing::expect_near(job.params(rank), bsp.params(rank), 1e-6);
    }
  }
}

// Equal updates come back as they are, whatever they weigh; unequal ones by share.
TEST(FedAvg, R3_12_WeightsAreSharesOfTheSamplesAndSumToOne) {
  for (bool equal : {false, true}) {
    const std::vector<double> n_k = {1, 2, 5};
    for (std::size_t probe = 0; probe < 3; ++probe) {
      std::vector<Quadratic::Config> all(3, {.target = 8, .slope = 0, .start = 8, .rate = 0.5f});
      for (std::size_t k = 0; k < 3; ++k) all[k].samples = std::uint64_t(n_k[k]);
      all[probe].target = 9;  // u of this one is 1/2, of the others 0
      auto job = TestJob::ended(plain_job(
          "fedavg", {set("steps", 1), {"weights", {equal ? "equal"s : "samples"s}}}, all, 1));
      EXPECT_NEAR(job.params(0)[0] - 8, 0.5 * (equal ? 1. / 3 : n_k[probe] / 8), 1e-6);
    }
    std::vector<Quadratic::Config> same(3, {.target = 1, .start = 7, .rate = 0.3f});
    for (std::size_t k = 0; k < 3; ++k) same[k].samples = std::uint64_t(n_k[k]);
    auto job = TestJob::ended(plain_job("fedavg", {}, same, 1));
    auto one = TestJob::ended(plain_job("fedavg", {}, {same[0]}, 1));
    EXPECT_EQ(job.params(1), one.params(0));
  }
}

// Nodes that draw differently would not be two a round, and would not wait for each other.
TEST(FedAvg, R3_13_AllNodesDrawTheSameWorkers) {
  std::set<std::vector<std::set<Rank>>> sequences;
  for (std::uint64_t seed : {1u, 2u}) {
    TestJob::Config config = plain_job("fedavg", {set("steps", 2), {"fraction", {0.4}}},
                                       learners(5, {.buffers = 1}), 30);
    config.seed = seed;
    auto job = TestJob::ended(config);
    std::vector<std::set<Rank>> computed(30);
    for (Rank rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(job.finished[rank], 1);
      EXPECT_GT(job.steps[rank], 0u);
      EXPECT_EQ(job.params(rank), job.params(0));
      for (auto [round, loss] : job.records[{rank, "train_loss"}]) computed[round].insert(rank);
    }
    for (Round round = 0; round < 30; ++round) EXPECT_EQ(computed[round].size(), 2u) << round;
    sequences.insert(computed);
  }
  EXPECT_EQ(sequences.size(), 2u);  // and another seed draws others
}

TEST(FedAvg, AtLeastOneWorkerComputes) {
  auto job = TestJob::ended(plain_job("fedavg", {{"fraction", {0.01}}}, learners(3, {}), 4));
  EXPECT_EQ(job.steps[0] + job.steps[1] + job.steps[2], 4u * 20);
}

TEST(FedAvg, TheLocalOptimiserStartsAfreshUnlessToldToStay) {
  const Quadratic::Config learner{.start = 1, .rate = 0.1f, .momentum = 0.9f};
  for (bool reset : {true, false}) {
    auto job = TestJob::ended(
        plain_job("fedavg", {set("steps", 3), {"reset_optimizer", {reset}}}, {learner}, 2));
    Quadratic plain(8, learner);
    for (int i = 0; i < 6; ++i) {
      if (reset && i == 3) ASSERT_TRUE(plain.step(ResetOptimizer{}));
      ASSERT_TRUE(plain.step(LocalStep{}));
    }
    testing::expect_near(job.params(0), plain.params(), 1e-6);
  }
}

TEST(FedAvg, FewerThanMinSitesEndTheRunNamingTheLost) {
  TestJob job(plain_job("fedavg", {set("min_sites", 3)}, learners(3, {}),
                        longhaul::testing::kGate ? 100 : 1000));
  job.crash(1);
  job.run();
  ASSERT_EQ(job.failures.size(), 2u);
  for (const char* part : {"2 of 3 sites", "min_sites is 3", "lost: site1"})
    EXPECT_TRUE(says(job.failures[2], part));
}

TEST(FedAvg, MoreMinSitesThanSitesAreRefused) {
  const Members two = {{"oregon", 0}, {"oregon", 1}, {"tokyo", 0, 0, std::uint8_t(Role::server)}};
  EXPECT_TRUE(says(testing::status_of("fedavg", {set("min_sites", 2)}, two), "min_sites"));
}

// A quadratic whose steps are of batches of `batch` of its samples.
class InBatches final : public Learner {
 public:
  InBatches(Quadratic::Config like, std::uint64_t batch) : inner_(8, like), batch_(batch) {}
  std::shared_ptr<const Layout> layout() const override { return inner_.layout(); }
  std::span<float> params() override { return inner_.params(); }
  std::span<float> grads() override { return inner_.grads(); }
  void state(Archive& ar) override { inner_.state(ar); }
  Result<StepResult> step(const Work& work) override {
    auto result = inner_.step(work);
    if (result) result->samples = std::min(result->samples, batch_);
    return result;
  }

 private:
  Quadratic inner_;
  std::uint64_t batch_;
};

// Sites of 2 and 80 samples that pull to 0 and 1, with batches of 2, so that an epoch is 1 step and
// 40 steps. By FedNova the model rests where the mean of all 82 samples is, 80/82.
TEST(FedAvg, EpochsTakeMoreStepsAtLargeSitesAndFedNovaMakesUpForIt) {
  constexpr bool kGate = longhaul::testing::kGate;
  constexpr Round kRounds = longhaul::testing::kGate ? 130 : 1000;
  const auto run = [](const std::string& weights) {
    TestJob::Config config =
        plain_job("fedavg", {{"epochs", {1.}}, {"weights", {weights}}}, learners(2, {}), kRounds);
    config.make_learner = [](Rank rank) {
      const Quadratic::Config like{.target = float(rank),
                                   .slope = 0,
                                   .start = kGate ? 0.5f : 10,
                                   .rate = kGate ? 3e-3f : 1e-3f,
                                   .samples = rank == 0 ? 2u : 80u};
      return std::make_unique<InBatches>(like, 2);
    };
    auto job = TestJob::ended(config);
    EXPECT_EQ(job.failures.size(), 0u);
    // A step on a copy, then an epoch a round.
    EXPECT_EQ(job.steps[0], kRounds + 1);
    EXPECT_EQ(job.steps[1], 40 * kRounds + 1);
    return job.params(0)[0];
  };
  const double plain = double(run("equal")), nova = double(run("steps"));
  EXPECT_NEAR(plain, 40. / 41, 2e-3) << "each counts by its steps";
  EXPECT_NEAR(nova, 1. / 2, 2e-2);
  EXPECT_NEAR(double(run("fednova")), 80. / 82, 2e-3);
}

// 1.1 * 100 is a little more than 110.
TEST(FedAvg, EpochsOfADecimalTakeItsBatches) {
  TestJob::Config config = plain_job("fedavg", {{"epochs", {1.1}}}, learners(2, {}), 2);
  config.make_learner = [](Rank) {
    return std::make_unique<InBatches>(Quadratic::Config{.rate = 1e-3f, .samples = 200}, 2);
  };
  auto job = TestJob::ended(config);
  for (const Rank rank : {0u, 1u}) EXPECT_EQ(job.steps[rank], 1 + 2 * 110u);
}

TEST(FedAvg, SavingAndLoadingAfterAnyEventChangesNothing) {
  TestJob::Config config = plain_job("fedavg", {set("steps", 2), {"fraction", {0.5}}},
                                     learners(3, {.momentum = 0.5f, .buffers = 1}), 4);
  config.outer = {{"kind", {"adam"s}}};
  EXPECT_EQ(testing::changed_by_saving(config), "");
  config.settings = {{"epochs", {2.}}, {"weights", {"fednova"s}}, {"momentum", {0.5}}};
  EXPECT_EQ(testing::changed_by_saving(config), "");
}

TEST(FedAvg, StopsWhenAllTogetherHaveUsedMaxSamples) {
  auto all = learners(3, {});
  for (std::size_t k = 0; k < 3; ++k) all[k].samples = k + 1;
  auto job = TestJob::ended({.sync = "fedavg",
                             .settings = {set("steps", 2)},  // 12 samples a round
                             .learners = all,
                             .stop = {.max_rounds = 100, .max_samples = 49}});
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(job.node(rank).strategy().rounds_done(), 5u);
}

}  // namespace
}  // namespace longhaul::sync
