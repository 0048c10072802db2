// What workers of sfb send each other: how much, how far ahead, and what follows a loss.
#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/sync/sfb.h"
#include "longhaul/sync/testing/sfb_job.h"

namespace longhaul::sync {
namespace {

using testing::factors_by;
using testing::kFactorIn;
using testing::kFactorOut;
using testing::sfb_job;
using testing::TestJob;

// sfb_test.cpp, invariant 4: 4 K (J + D) (P - 1) bytes of a worker in a clock, of factors that are
// not sparse.
TEST(Sfb, SendsItsFactorsToEachOther) {
  for (const char* spread : {"full", "tree"}) {
    TestJob::Config config = sfb_job(4, factors_by(spread), 5);
    config.settings.push_back({"sparse_v", {false}});
    auto job = TestJob::ended(config);
    const double own = 4.0 * (kFactorOut + 1) * (kFactorOut + kFactorIn) * 3;
    double sum = 0;
    for (Rank rank = 0; rank < 4; ++rank)
      for (const auto& [clock, bytes] : job.records[{rank, "sent_bytes"}]) {
        sum += bytes;
        if (spread == std::string("full")) EXPECT_EQ(bytes, own);
      }
    // What a tree passes on after its last clock is in no record.
    EXPECT_LE(sum, 4 * 5 * own);
    EXPECT_GE(sum, 4 * 4 * own);
  }
}

// A site is lost after any event: survivors go on with equal models.
void survives_the_loss_of_a_worker(bool wait_free) {
  std::size_t number = 0;
  for (const std::int64_t staleness : {0, 2})
    for (const char* spread : {"full", "tree", "site"}) {
      // In the gate every spread in one of the two tests, with one staleness or the other.
      if (longhaul::testing::kGate && number++ % 2 == (wait_free ? 0 : 1)) continue;
      TestJob::Config config = sfb_job(5, factors_by(spread, staleness), 5, wait_free);
      if (wait_free) config.settings = testing::wait_free(config.settings);
      for (auto& learner : config.learners) learner.momentum = 0;
      SCOPED_TRACE(std::string(spread) + ", staleness " + std::to_string(staleness));
      testing::expect_equal_survivors(config);
    }
}

TEST(Sfb, SurvivesTheLossOfAWorkerAtAnyMoment) { survives_the_loss_of_a_worker(false); }
TEST(Sfb, SurvivesALossBetweenTheLayersOfAClock) { survives_the_loss_of_a_worker(true); }

// sfb_test.cpp, invariant 6.
TEST(Sfb, NobodyIsFurtherAheadThanStaleness) {
  for (const std::int64_t staleness : {0, 1, 3}) {
    TestJob::Config config = sfb_job(4, factors_by("tree", staleness), 12);
    for (auto& learner : config.learners) learner.momentum = 0;
    config.takes = [](Rank rank) { return rank == 2 ? 60 : 0; };
    TestJob job(config);
    Round most = 0;
    job.after_event = [&] {
      Round low = ~Round(0), high = 0;
      for (Rank rank = 0; rank < 4; ++rank) {
        const Round done = job.node(rank).strategy().rounds_done();
        low = std::min(low, done);
        high = std::max(high, done);
      }
      most = std::max(most, high - low);
    };
    job.run();
    EXPECT_LE(most, Round(staleness + 1));
    EXPECT_GE(most, Round(staleness > 0 ? staleness : 0)) << "the bound is reached";
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(job.finished[rank], 1);
      EXPECT_EQ(job.params(rank), job.params(0));
    }
    if (staleness > 0) EXPECT_FALSE((job.records[{0, "staleness"}].empty()));
  }
}

// What workers of a run with staleness and a rate of 1 / sqrt(c + 1) hold.
struct Copies {
  explicit Copies(std::int64_t staleness, Round clocks) {
    TestJob::Config config = sfb_job(4, factors_by("tree", staleness), clocks);
    for (auto& learner : config.learners) {
      learner.momentum = 0;
      learner.buffers = 0;
    }
    config.rate_share = [](std::uint64_t clock) { return 1 / std::sqrt(double(clock + 1)); };
    config.takes = [](Rank rank) { return int(rank * 7 % 5) * 2; };
    TestJob job(config);
    job.after_event = [&] { look(job); };
    job.run(1000000);
    EXPECT_TRUE(job.failures.empty()) << job.failures.begin()->second;
  }
  // max ||w_p - w_q||
  static double distance(const std::vector<std::vector<float>>& models) {
    double most = 0;
    for (const auto& a : models)
      for (const auto& b : models) {
        double sum = 0;
        for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
        most = std::max(most, std::sqrt(sum));
      }
    return most;
  }
  void look(TestJob& job) {
    std::vector<std::vector<float>> models;
    Round clock = ~Round(0);
    for (Rank rank = 0; rank < 4; ++rank) {
      const auto& sfb = dynamic_cast<const Sfb&>(job.node(rank).strategy());
      if (sfb.is_averaging()) flushed.try_emplace(rank, job.params(rank));
      clock = std::min(clock, sfb.rounds_done());
      if (events % 5 == 0) models.push_back(job.params(rank));
    }
    ++events;
    if (flushed.empty()) apart[clock] = std::max(apart[clock], distance(models));
  }
  double most_apart(Round from, Round end) const {
    double most = 0;
    for (auto it = apart.lower_bound(from); it != apart.lower_bound(end); ++it)
      most = std::max(most, it->second);
    return most;
  }
  std::uint64_t events = 0;
  std::map<Round, double> apart;               // by the clocks that all have done: the most then
  std::map<Rank, std::vector<float>> flushed;  // when all clocks of all are applied
};

// sfb_test.cpp, invariant 11.
TEST(Sfb, WithAFallingRateCopiesComeTogether) {
  constexpr Round kEnd = longhaul::testing::kGate ? 72 : 120;
  for (const std::int64_t staleness : {1, 3}) {
    if (longhaul::testing::kGate && staleness == 1) continue;
    const Copies copies(staleness, kEnd);
    const double begin = copies.most_apart(2, 6), middle = copies.most_apart(20, 40),
                 end = copies.most_apart(kEnd - 20, kEnd);
    EXPECT_GT(end, 0);
    EXPECT_LT(middle, 0.5 * begin);
    EXPECT_LT(end, 0.7 * middle);
    ASSERT_EQ(copies.flushed.size(), 4u);
    std::vector<std::vector<float>> models;
    for (const auto& [rank, model] : copies.flushed) models.push_back(model);
    const std::vector<float> zero(models[0].size());
    EXPECT_LT(Copies::distance(models), 1e-4 * Copies::distance({models[0], zero}));
  }
}

}  // namespace
}  // namespace longhaul::sync
