#include "longhaul/sync/easgd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::TestJob;

TestJob::Config job_of(std::uint32_t n, double beta, Round rounds, float rate) {
  return {.sync = "easgd",
          .settings = {{"synchronous", {true}}, {"steps", {std::int64_t{1}}}, {"beta", {beta}}},
          .learners = testing::learners(n, {.start = 2, .rate = rate, .momentum = 0.5f}),
          .stop = {.max_rounds = rounds}};
}

struct State {
  std::vector<double> x;  // of the workers
  double c = 0;
  double mean() const { return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size()); }
};

// After so many rounds without training, from a centre at 2 and the k-th worker at k^2 - 3.5.
State after(std::uint32_t n, double beta, Round rounds) {
  State state{std::vector<double>(n), 0};
  for (const Round last : {rounds, rounds + 1}) {
    TestJob job(job_of(n, beta, last, 0));
    std::uint32_t events = 0;
    job.after_event = [&] {
      ++events;  // the first n are the starts
      for (Rank rank = 0; rank < n; ++rank) {
        if (events == n) std::ranges::fill(job.learner(rank).params(), float(rank * rank) - 3.5f);
        if (job.node(rank).strategy().rounds_done() == rounds && last > rounds)
          state.x[rank] = double(job.params(rank)[0]);
      }
    };
    job.run();
    // What all end with is the centre.
    for (Rank rank = 0; rank < n; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
    if (last == rounds) state.c = double(job.params(0)[0]);
  }
  return state;
}

TEST(SynchronousEasgd, R3_19_WhatWorkersAndCentreHoldTogetherIsConserved) {
  const State first = after(3, 0.9, 1);
  for (const Round rounds : {2u, 5u, 9u}) {
    const State later = after(3, 0.9, rounds);
    EXPECT_NEAR(3 * later.mean() + later.c, 3 * first.mean() + first.c, 1e-5) << rounds;
  }
}

TEST(SynchronousEasgd, R3_20_WorkersAndCentreComeTogetherAsTheAlgebraSays) {
  for (const std::uint32_t n : {1u, 2u, 4u})
    for (const double beta : {0.2, 0.9}) {
      const double alpha = beta / n;
      State now = after(n, beta, 1);
      for (Round rounds = 1; rounds < 5; ++rounds) {
        const State next = after(n, beta, rounds + 1);
        EXPECT_NEAR(next.mean() - next.c, (1 - alpha * (n + 1)) * (now.mean() - now.c), 1e-5)
            << n << ", " << beta;
        for (Rank rank = 0; rank < n; ++rank)
          EXPECT_NEAR(next.x[rank] - next.mean(), (1 - alpha) * (now.x[rank] - now.mean()), 1e-5)
              << n << ", " << beta;
        now = next;
      }
    }
}

TEST(SynchronousEasgd, SavingAfterEveryEventChangesNothing) {
  EXPECT_EQ(changed_by_saving(job_of(3, 0.9, 6, 0.05f)), "");
}

}  // namespace
}  // namespace longhaul::sync
