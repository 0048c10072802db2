#pragma once
// Jobs of gaia on quadratic learners, for its tests.
#include <gtest/gtest.h>

#include "longhaul/sync/gaia.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync::testing {

inline constexpr const char* kGaiaExchanges[] = {"direct", "gaia_hubs", "peer_hubs"};

inline std::vector<Setting> gaia_settings(double significance, std::int64_t staleness,
                                          std::string exchange = "direct") {
  return {{"significance", {significance}},
          {"staleness", {staleness}},
          {"exchange", {std::move(exchange)}}};
}

inline TestJob::Config gaia_job(std::uint32_t n, std::vector<Setting> settings, Round rounds) {
  return {.sync = "gaia",
          .settings = std::move(settings),
          .learners = learners(n, {.slope = 0.3f, .rate = 0.1f, .buffers = 2}),
          .stop = {.max_rounds = rounds, .report_every = 3}};
}

inline const Gaia& gaia_at(TestJob& job, Rank rank) {
  return dynamic_cast<const Gaia&>(job.node(rank).strategy());
}

}  // namespace longhaul::sync::testing
