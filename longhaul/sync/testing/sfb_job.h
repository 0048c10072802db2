#pragma once
// A job of workers whose models have one layer that goes as factors, for the tests of sfb.
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

}  // namespace longhaul::sync::testing
