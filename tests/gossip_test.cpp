// Strategies without a server, which no exchange of all keeps together: no delay and no loss makes
// them wait for each other.
#include <gtest/gtest.h>

#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

JobSpec gossip_spec(const std::string& sync, std::uint64_t seed) {
  const auto syncs = sync_variants();
  const auto found =
      std::find_if(syncs.begin(), syncs.end(), [&](const auto& v) { return v.name() == sync; });
  LH_CHECK(found != syncs.end());
  return {.parts = plain(*found, overlay_variants().at(0)),
          .workers = 5 + std::uint32_t(seed % 3),
          .one_site_each = true,
          .size = 100,
          .buffers = 0,
          .rounds = 5,
          .steps = 1,
          .seed = seed,
          .phantom = true};
}

// Each seed has other delays, speeds and moments of the losses.
void expect_an_end_after_two_losses(const std::string& sync, std::uint64_t seeds) {
  for (std::uint64_t seed = 1; seed <= seeds; seed += kStride) {
    SCOPED_TRACE(sync + ", seed " + std::to_string(seed));
    JobSpec spec = gossip_spec(sync, seed);
    Random random(seed, {});
    Tables tables = unequal_tables(members_of(spec));
    for (auto& speed : tables.speeds) speed.mean = std::chrono::milliseconds(1 + random.below(60));
    for (Rank from = 0; from < spec.workers; ++from)
      for (Rank to = 0; to < spec.workers; ++to)
        tables.network.links[{from, to}] = {flow::bytes_per_second(1 + double(random.below(40))),
                                            std::chrono::milliseconds(1 + random.below(90))};
    spec.tables = tables;
    const Rank first = Rank(random.below(spec.workers));
    const Rank second = Rank((first + 1 + random.below(spec.workers - 1)) % spec.workers);
    const std::uint64_t at = random.below(150 * spec.workers);
    spec.faults = {{.kind = sim::Fault::Kind::crash, .rank = first, .at_event = at},
                   {.kind = sim::Fault::Kind::crash,
                    .rank = second,
                    .at_event = at + random.below(40 * spec.workers)}};
    Job job(spec);
    const Status status = job.run();
    ASSERT_TRUE(status) << status.error().what;
    EXPECT_TRUE(job.bad_messages.empty()) << job.bad_messages.front();
    for (Rank rank = 0; rank < spec.workers; ++rank) {
      if (job.world().figures(rank).crashed) continue;
      EXPECT_TRUE(job.world().node(rank).finished());
      EXPECT_EQ(job.world().node(rank).strategy().rounds_done(), spec.rounds);
    }
  }
}

TEST(Gossip, AdpsgdEndsWithAnyDelaysAndTwoLosses) {
  expect_an_end_after_two_losses("adpsgd", kGate ? 400 : 1000);
}
TEST(Gossip, DpsgdEndsWithAnyDelaysAndTwoLosses) { expect_an_end_after_two_losses("dpsgd", 300); }
TEST(Gossip, ElasticShadowSyncEndsWithAnyDelaysAndTwoLosses) {
  expect_an_end_after_two_losses("shadowsync_easgd", 300);
}

}  // namespace
}  // namespace longhaul::conformance
