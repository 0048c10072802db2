// sync/sfb.h with partial spread: who sends to whom, what a worker makes of what it has, means of
// models, losses.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "longhaul/sync/sfb/spread.h"
#include "longhaul/sync/testing/sfb_job.h"

namespace longhaul::sync {
namespace {

using testing::factors_by;
using testing::kFactorIn;
using testing::kFactorOut;
using testing::kFactorSize;
using testing::Quadratic;
using testing::sfb_job;
using testing::TestJob;

constexpr std::uint64_t kFactorsAlone = kFactorOut * (kFactorIn + 1);

// Q = `peers`; the whole model goes as factors, so that nobody waits for all but in a mean.
TestJob::Config partial_job(std::uint32_t n, std::int64_t peers, std::int64_t mean_every,
                            Round clocks) {
  TestJob::Config config = sfb_job(n, factors_by("partial"), clocks);
  config.settings.push_back({"partial_peers", {peers}});
  config.settings.push_back({"mean_every", {mean_every}});
  config.size = kFactorsAlone;
  for (auto& learner : config.learners) learner.buffers = 0;
  return config;
}

std::vector<Rank> ranks_below(std::uint32_t n) {
  std::vector<Rank> ranks(n);
  std::iota(ranks.begin(), ranks.end(), Rank(0));
  return ranks;
}

// sfb.md 4: 4 K (J + D) Q.
TEST(SfbPartial, SendsItsFactorsToSomeOfTheOthers) {
  for (const std::int64_t peers : {0, 1, 3, 9}) {
    TestJob::Config config = partial_job(5, peers, 4, 6);
    config.settings.push_back({"sparse_v", {false}});
    TestJob job(config);
    job.run();
    const double to = peers == 0 ? 3 : std::min(4.0, double(peers));  // 0: ceil(log2 5)
    const double expected = 4.0 * (kFactorOut + 1) * (kFactorOut + kFactorIn) * to;
    for (Rank rank = 0; rank < 5; ++rank) {
      const auto& sent = job.records[{rank, "sent_bytes"}];
      ASSERT_EQ(sent.size(), 6u);
      for (const auto& [clock, bytes] : sent) EXPECT_EQ(bytes, expected) << clock;
    }
  }
}

// The models after each clock, of a run of plain loops.
std::vector<std::vector<std::vector<double>>> models_by_hand(const TestJob::Config& config,
                                                             std::uint32_t peers,
                                                             std::uint64_t mean_every) {
  const auto n = std::uint32_t(config.learners.size());
  std::vector<std::vector<double>> models(
      n, std::vector<double>(config.size, double(config.learners[0].start)));
  std::vector<std::vector<std::vector<double>>> all;
  for (Round clock = 0; clock < config.stop.max_rounds; ++clock) {
    const auto before = models;
    for (Rank rank = 0; rank < n; ++rank) {
      std::vector<Rank> from = sfb::partial_senders(clock, rank, peers, ranks_below(n));
      from.push_back(rank);
      double samples = 0;
      for (const Rank q : from) samples += double(config.learners[q].samples);
      for (std::size_t i = 0; i < config.size; ++i)
        for (const Rank q : from) {
          const auto& learner = config.learners[q];
          const double target = double(learner.target) + double(i) * double(learner.slope);
          const double share = double(learner.samples) / samples;
          models[rank][i] -= double(learner.rate) * share * (before[q][i] - target);
        }
    }
    if ((clock + 1) % mean_every == 0 || clock + 1 == config.stop.max_rounds) {
      std::vector<double> mean(config.size, 0.0);
      for (const auto& model : models)
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += model[i] / n;
      models.assign(n, mean);
    }
    all.push_back(models);
  }
  return all;
}

// What each worker holds when it has done so many clocks and begins the next one.
struct ModelsByClock {
  explicit ModelsByClock(TestJob& job) : job_(job) {
    job.after_event = [this] { look(); };
  }
  void look() {
    for (Rank rank = 0; rank < Rank(5); ++rank)
      models[{job_.node(rank).strategy().rounds_done(), rank}] = job_.params(rank);
  }
  std::map<std::pair<Round, Rank>, std::vector<float>> models;

 private:
  TestJob& job_;
};

TEST(SfbPartial, TakesTheMeanOfTheGradientsThatAWorkerHas) {
  constexpr Round kClocks = longhaul::testing::kGate ? 7 : 11;
  for (const std::uint32_t peers : {1u, 2u, 4u}) {
    TestJob::Config config = partial_job(5, peers, 4, kClocks);
    for (std::uint32_t k = 0; k < 5; ++k) {
      config.learners[k].momentum = 0;
      config.learners[k].samples = 1 + k;
    }
    config.takes = [](Rank rank) { return int(rank * 7 % 5) * 3; };
    TestJob job(config);
    ModelsByClock seen(job);
    job.run();
    ASSERT_TRUE(job.failures.empty()) << job.failures.begin()->second;
    const auto expected = models_by_hand(config, peers, 4);
    for (Round clock = 0; clock < kClocks; ++clock)
      for (Rank rank = 0; rank < 5; ++rank)
        for (std::size_t i = 0; i < kFactorsAlone; ++i)
          EXPECT_NEAR((seen.models[{clock + 1, rank}][i]), expected[clock][rank][i], 1e-4)
              << "clock " << clock << " rank " << rank;
  }
}

// The most that an element differs between two workers after a clock.
double apart_after(Round clock, const ModelsByClock& seen) {
  double most = 0;
  const std::vector<float>& first = seen.models.at({clock, 0});
  for (Rank rank = 1; rank < 5; ++rank)
    for (std::size_t i = 0; i < first.size(); ++i)
      most = std::max(most, std::abs(double(seen.models.at({clock, rank})[i]) - double(first[i])));
  return most;
}

TEST(SfbPartial, MeansMakeModelsEqualAndKeepThemTogether) {
  double most_of_rare = 0, most_of_frequent = 0;
  for (const std::int64_t mean_every : {3, 12}) {
    TestJob job(partial_job(5, 1, mean_every, 24));
    ModelsByClock seen(job);
    job.run();
    ASSERT_TRUE(job.failures.empty()) << job.failures.begin()->second;
    double& most = mean_every == 3 ? most_of_frequent : most_of_rare;
    for (Round clock = 1; clock <= 24; ++clock) {
      const double apart = apart_after(clock, seen);
      if (clock % Round(mean_every) == 0)
        EXPECT_EQ(apart, 0) << clock;
      else
        EXPECT_GT(apart, 0) << clock;
      most = std::max(most, apart);
    }
  }
  EXPECT_LT(most_of_frequent, most_of_rare);
}

TEST(SfbPartial, TheRunEndsWithAMean) {
  TestJob job(partial_job(4, 1, 50, 7));
  job.run();
  EXPECT_TRUE(job.failures.empty());
  for (Rank rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(job.finished[rank], 1);
    EXPECT_EQ(job.params(rank), job.params(0));
  }
}

// A worker waits for those alone who send to it: others may be further behind, by a cycle.
TEST(SfbPartial, AWorkerWaitsForThoseWhoSendToIt) {
  for (const std::int64_t peers : {1, 2}) {
    TestJob::Config config = partial_job(7, peers, 100, longhaul::testing::kGate ? 16 : 40);
    config.takes = [](Rank rank) { return rank != 2 ? 0 : longhaul::testing::kGate ? 200 : 400; };
    TestJob job(config);
    Round most = 0;
    job.after_event = [&] {
      Round low = ~Round(0), high = 0;
      for (Rank rank = 0; rank < 7; ++rank) {
        low = std::min(low, job.node(rank).strategy().rounds_done());
        high = std::max(high, job.node(rank).strategy().rounds_done());
      }
      most = std::max(most, high - low);
    };
    job.run(1000000);
    EXPECT_TRUE(job.failures.empty()) << job.failures.begin()->second;
    EXPECT_TRUE(job.errors.empty()) << job.errors.front();
    EXPECT_LE(most, sfb::partial_cycle(std::uint32_t(peers), 7) + 1);
    EXPECT_GE(most, 2u);
  }
}

TEST(SfbPartial, IsTheSameAfterSavingAndLoading) {
  EXPECT_EQ(testing::changed_by_saving(partial_job(3, 1, 2, 5)), "");
  TestJob::Config beside = sfb_job(4, testing::wait_free(factors_by("partial")), 4, true);
  beside.settings.push_back({"mean_every", {std::int64_t(3)}});
  for (auto& learner : beside.learners) learner.buffers = 0;
  EXPECT_EQ(testing::changed_by_saving(beside), "");
}

TEST(SfbPartial, SurvivesTheLossOfAWorkerAtAnyMoment) {
  for (const std::int64_t peers : {1, 3}) {
    TestJob::Config config = partial_job(5, peers, 3, 8);
    config.takes = [](Rank rank) { return int(rank * 7 % 5) * 9; };
    SCOPED_TRACE(peers);
    testing::expect_equal_survivors(config);
  }
}

}  // namespace
}  // namespace longhaul::sync
