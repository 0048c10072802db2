// What sfb promises where messages and steps take any time.
#include <gtest/gtest.h>

#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

JobSpec sfb_spec(std::string spread, std::int64_t staleness) {
  const auto syncs = sync_variants();
  auto found = *std::ranges::find_if(syncs, [](const auto& one) { return one.name() == "sfb"; });
  found.settings = {{"spread", {std::move(spread)}},
                    {"staleness", {staleness}},
                    {"rule", {std::string("always")}},
                    {"hash_every", {std::int64_t(1)}}};
  JobSpec spec{.parts = plain(found, overlay_variants().at(0)),
               .workers = 5,
               .size = 300,
               .momentum = staleness == 0 ? 0.3f : 0,
               .rounds = 12};
  return spec;
}

// Clocks begun, which are gradients asked for, of each worker as time goes by.
struct Clocks final : sim::Watcher {
  void acted(Time, Rank rank, const Action& action) override {
    const auto* step = std::get_if<ComputeStep>(&action);
    if (!step || !std::holds_alternative<SufficientFactors>(step->work)) return;
    ++begun[rank];
    Round low = ~Round(0), high = 0;
    for (Rank other = 0; other < 5; ++other) {
      low = std::min(low, begun[other]);
      high = std::max(high, begun[other]);
    }
    most = std::max(most, high - low);
  }
  std::map<Rank, Round> begun;
  Round most = 0;
};

// sfb.md 6.
TEST(SfbInTime, RunningClocksDifferByStalenessAtMost) {
  for (const char* spread : {"full", "tree", "site"})
    for (const std::int64_t staleness : {0, 1, 2}) {
      SCOPED_TRACE(std::string(spread) + " " + std::to_string(staleness));
      Job job(sfb_spec(spread, staleness));
      Clocks clocks;
      job.world().watch(clocks);
      const Status status = job.run();
      ASSERT_TRUE(status) << status.error().what;
      EXPECT_TRUE(job.bad_messages.empty()) << job.bad_messages.front();
      EXPECT_TRUE(job.all_equal());
      // One may have begun its next clock while another has not been told yet that it may.
      EXPECT_LE(clocks.most, Round(staleness + 1));
      EXPECT_GE(clocks.most, Round(staleness > 0 ? staleness : 1));
      EXPECT_LT(job.distance(), 0.6 * job.start_distance());
    }
}

// sfb.md 8: with relays lost, too.
TEST(SfbInTime, SurvivorsEndWithEqualModels) {
  for (const char* spread : {"tree", "site"})
    for (const std::int64_t staleness : {0, 2}) {
      JobSpec spec = sfb_spec(spread, staleness);
      const std::uint64_t events = events_of(spec);
      for (std::uint64_t at = 20; at < events; at += events / (kStride > 1 ? 5 : 40)) {
        SCOPED_TRACE(std::string(spread) + " " + std::to_string(at));
        JobSpec lossy = spec;
        lossy.faults = {{.kind = sim::Fault::Kind::crash, .rank = Rank(at % 5), .at_event = at}};
        Job job(lossy);
        const Status status = job.run();
        ASSERT_TRUE(status) << status.error().what;
        EXPECT_TRUE(job.bad_messages.empty()) << job.bad_messages.front();
        EXPECT_TRUE(job.all_equal());
      }
    }
}

}  // namespace
}  // namespace longhaul::conformance
