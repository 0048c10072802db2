#pragma once
// A job of workers whose models have one layer that goes as factors, for the tests of sfb.
#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync::testing {

inline constexpr std::uint32_t kFactorOut = 3, kFactorIn = 4;
inline constexpr std::uint64_t kFactorSize =
    kFactorOut * (kFactorIn + 1) + 6;  // two of them are buffers

inline std::vector<Setting> factors_by(std::string spread, std::int64_t staleness = 0) {
  return {{"rule", {std::string("always")}},
          {"spread", {std::move(spread)}},
          {"hash_every", {std::int64_t(1)}},
          {"staleness", {staleness}}};
}

// The same, in two stages, with learners whose layer is the last: it leaves before the rest.
inline std::vector<Setting> wait_free(std::vector<Setting> settings) {
  settings.push_back({"wait_free", {true}});
  return settings;
}

inline TestJob::Config sfb_job(std::uint32_t n, std::vector<Setting> settings, Round rounds,
                               bool layer_last = false) {
  return {.sync = "sfb",
          .settings = std::move(settings),
          .learners = learners(n, {.rate = 0.1f,
                                   .momentum = 0.5f,
                                   .buffers = 2,
                                   .out = kFactorOut,
                                   .in = kFactorIn,
                                   .layer_last = layer_last}),
          .size = kFactorSize,
          .stop = {.max_rounds = rounds, .report_every = 3}};
}

// Of five workers one is lost after any event: the others end with equal models.
inline void expect_equal_survivors(const TestJob::Config& config) {
  std::uint64_t events = 0;
  TestJob whole(config);
  whole.after_event = [&] { ++events; };
  whole.run();
  constexpr bool kGate = longhaul::testing::kGate;
  const std::uint64_t every = kGate ? (events / 2) | 1 : 1 + 4 * longhaul::testing::kStride;
  for (std::uint64_t at = kGate ? events / 4 : 3; at < events; at += every) {
    const Rank lost = Rank(at % 5);
    SCOPED_TRACE("rank " + std::to_string(lost) + " after event " + std::to_string(at));
    TestJob job(config);
    job.crash_at(at, lost);
    job.run();
    const Rank first = lost == 0 ? 1 : 0;
    EXPECT_TRUE(job.errors.empty()) << job.errors.front();
    for (Rank rank = 0; rank < 5; ++rank) {
      if (rank == lost) continue;
      ASSERT_EQ(job.failures[rank], "");
      ASSERT_EQ(job.finished[rank], 1);
      ASSERT_EQ(job.params(rank), job.params(first));
    }
  }
}

}  // namespace longhaul::sync::testing
