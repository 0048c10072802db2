// Strategies without a server, which no exchange of all keeps together: no delay and no loss makes
// them wait for each other.
#include <gtest/gtest.h>

#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

JobSpec gossip_spec(const std::string& sync, std::uint64_t seed) {
  return {.parts = plain(variant_named(sync_variants(), sync), overlay_variants().at(0)),
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
    spec.tables = random_tables(spec, random, 60, 40, 90);
    const Rank first = Rank(random.below(spec.workers));
    const Rank second = Rank((first + 1 + random.below(spec.workers - 1)) % spec.workers);
    const std::uint64_t at = random.below(150 * spec.workers);
    spec.faults = {crash(first, at), crash(second, at + random.below(40 * spec.workers))};
    Job job(spec);
    expect_ends_alike(job);
  }
}

TEST(Gossip, AdpsgdEndsWithAnyDelaysAndTwoLosses) {
  expect_an_end_after_two_losses("adpsgd", kGate ? 400 : 1000);
}
TEST(Gossip, DpsgdEndsWithAnyDelaysAndTwoLosses) { expect_an_end_after_two_losses("dpsgd", 300); }
TEST(Gossip, NoLoCoEndsWithAnyDelaysAndTwoLosses) { expect_an_end_after_two_losses("noloco", 200); }
TEST(Gossip, StalenessLabEndsWithAnyDelaysAndTwoLosses) {
  expect_an_end_after_two_losses("staleness_lab", 300);
}
// Results depend on rounds and ranks, also in groups of three, whose members end a round in
// different order.
TEST(Gossip, NoLoCoHasTheSameModelsWithAnyDelays) {
  for (const std::uint32_t workers : {3u, 5u, 7u}) {
    std::vector<float> expected;
    for (std::uint64_t seed = 1; seed <= (kGate ? 8u : 100u); ++seed) {
      SCOPED_TRACE(std::to_string(workers) + " workers, seed " + std::to_string(seed));
      JobSpec spec = gossip_spec("noloco", 1);
      spec.workers = workers;
      spec.phantom = false;
      spec.rounds = 12;
      Random random(seed, {});
      spec.tables = random_tables(spec, random, 60, 40, 90);
      Job job(spec);
      expect_ends_alike(job);
      if (expected.empty()) expected = job.params(0);
      EXPECT_EQ(job.params(0), expected);
    }
  }
}
TEST(Gossip, ElasticShadowSyncEndsWithAnyDelaysAndTwoLosses) {
  expect_an_end_after_two_losses("shadowsync_easgd", 300);
}

}  // namespace
}  // namespace longhaul::conformance
