// What every strategy, overlay, transfer, codec and outer optimiser must do, over the registries: a
// part added there is tested here before its author has written a test. The other files of this
// folder do likewise for resuming, losses, hostile messages, costs and peeking.
#include <array>
#include <set>

#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/registry.h"
#include "longhaul/sync/registry.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

// One test an overlay and setting of it; in it, all other parts.
struct Conformance : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, Conformance, ::testing::ValuesIn(tried_overlays()), kByName);

JobSpec spec_of(const Combination& parts, std::uint32_t workers) {
  JobSpec spec{.parts = parts, .workers = workers, .rounds = 8};
  spec.steps = 3;
  return spec;
}

void expect_done(Job& job) {
  expect_ends_alike(job);
  for (Rank rank = 0; rank < job.world().size(); ++rank) {
    EXPECT_EQ(job.world().node(rank).dropped(), 0u);
    EXPECT_EQ(job.world().node(rank).waiting_for(), "");
  }
}

// Sites that pull to different places end where one that pulls to their mean does, all with the
// same bits.
TEST_P(Conformance, ConvergesOnUnequalTargetsWithEqualBits) {
  std::size_t turn = GetParam().name().size();
  for (const Combination& parts : combinations_with(GetParam())) {
    ++turn;
    for (std::uint32_t workers : {1u, 2u, 3u, 5u}) {
      if (kGate && workers != std::array{1u, 2u, 3u, 5u}[turn % 4]) continue;
      SCOPED_TRACE(parts.name() + " on " + std::to_string(workers));
      JobSpec spec = spec_of(parts, workers);
      if (lags(parts)) spec.rounds *= 2;
      Job job(spec);
      expect_done(job);
      if (swings(parts)) continue;
      Job reference(alone(spec_of(parts, workers)));
      expect_done(reference);
      EXPECT_LE(job.distance(),
                std::max(0.5 * job.start_distance(),
                         1.05 * reference.distance() + 0.02 * job.start_distance()));
      EXPECT_GT(job.direction(), 0.9);
    }
  }
}

// A server on a site of its own serves, or is not needed, and ends with the others.
TEST_P(Conformance, ANodeWithoutALearnerServesAndEnds) {
  for (const Combination& parts : combinations_with(GetParam())) {
    SCOPED_TRACE(parts.name());
    JobSpec spec = spec_of(parts, 3);
    spec.rounds = lags(parts) ? 6 : 3;
    Job without(spec);
    if (!kGate) expect_done(without);  // as in the other tests
    spec.server_apart = true;
    Job job(spec);
    expect_done(job);
    EXPECT_EQ(job.params(0).size(), without.params(0).size());
    EXPECT_TRUE(swings(parts) || job.direction() > 0.9) << job.direction();
  }
}

// Equal seed, equal trace: whatever the number of threads. Another seed, another trace.
TEST_P(Conformance, EqualSeedsGiveEqualTraces) {
  bool other_seed = true;  // in the gate with one combination
  for (const Combination& parts : combinations_with(GetParam())) {
    SCOPED_TRACE(parts.name());
    JobSpec spec = spec_of(parts, 3);
    spec.rounds = 3;
    std::vector<std::uint64_t> hashes;
    for (unsigned threads : {0u, 1u, 2u}) {
      if (kGate && threads == 1) continue;
      spec.world.threads = threads;
      Job job(spec);
      expect_done(job);
      hashes.push_back(job.witness().hash());
    }
    for (const std::uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]);
    if (kGate && !other_seed) continue;
    other_seed = false;
    spec.seed = 2;
    Job other(spec);
    expect_done(other);
    EXPECT_NE(other.witness().hash(), hashes[0]);
  }
}

// What travels and what is kept stays within bounds: no message is larger than a chunk, and a node
// keeps a small number of vectors whatever the number of rounds and peers.
TEST_P(Conformance, MessagesAndStateAreBounded) {
  std::size_t turn = GetParam().name().size();
  for (const Combination& parts : combinations_with(GetParam())) {
    SCOPED_TRACE(parts.name());
    ++turn;
    for (std::uint32_t workers : {2u, 5u}) {
      if (kGate && workers != std::array{2u, 5u}[turn % 2]) continue;
      JobSpec spec = spec_of(parts, workers);
      spec.rounds = 3;
      Job job(spec);
      std::size_t most = 0;
      while (job.step())
        if (job.world().counters().events % 97 == 0)
          most = std::max(most, job.largest_node_state());
      expect_ended_alike(job);
      EXPECT_LE(job.witness().largest_body(), spec.chunk_bytes + 1);  // sparse: its form
      const std::size_t vector = spec.size * sizeof(float);
      // A server may keep what each worker gave it last, in fp64; lag's, where that was, too,
      // beside what they give it now; the hub of gadmm's star has a model and a dual of each.
      const bool most_kept =
          parts.sync.entry->name == "lag" || parts.sync.name().starts_with("gadmm_star");
      const std::size_t each = most_kept ? 8 : parts.sync.entry->traits.served ? 4 : 0;
      const std::size_t kept = each * workers * vector;
      EXPECT_LE(most, 12 * vector + kept + 64 * workers * std::size_t(spec.chunk_bytes));
    }
  }
}

// What an entry calls small is what it runs with here; a variant's own settings win.
TEST(SmallSettings, OfAStrategyAreUsed) {
  const Variant<SyncEntry> fedavg = variant_named(sync_variants(), "fedavg");
  auto hash_with = [&](const SyncEntry& entry, std::vector<Setting> settings) {
    Variant<SyncEntry> sync{&entry, std::move(settings)};
    Job job(spec_of(plain(sync, overlay_variants().at(0)), 3));
    expect_done(job);
    return job.witness().hash();
  };
  SyncEntry small = *fedavg.entry;
  small.small = {{"fraction", {0.4}}};
  const std::uint64_t all = hash_with(*fedavg.entry, {});
  EXPECT_NE(hash_with(small, {}), all);
  EXPECT_EQ(hash_with(small, {{"fraction", {1.0}}}), all);
}

TEST(Combinations, CoverEveryPartWithEveryOverlay) {
  std::set<std::string> met;
  for (const Variant<OverlayEntry>& overlay : overlay_variants()) {
    std::set<std::string_view> syncs, codecs, outers;
    for (const Combination& c : all_combinations_with(overlay)) {
      syncs.insert(c.sync.entry->name);
      met.insert(c.sync.name());
      codecs.insert(c.codec.entry->name);
      outers.insert(c.outer.entry->name);
    }
    EXPECT_GE(syncs.size(), 3u) << overlay.name();
    EXPECT_GE(codecs.size(), 3u) << overlay.name();
    EXPECT_GE(outers.size(), 4u) << overlay.name();
  }
  EXPECT_EQ(met.size(), sync_variants().size()) << "every setting with some overlay";
}

TEST(Combinations, UnderASanitizerTooEveryStrategyIsTried) {
  std::set<std::string_view> syncs;
  for (const Variant<OverlayEntry>& overlay : tried_overlays()) {
    const auto some = combinations_with(overlay);
    EXPECT_FALSE(some.empty()) << overlay.name();
    for (const Combination& c : some) syncs.insert(c.sync.entry->name);
  }
  EXPECT_EQ(syncs.size(), sync::registry().size());
}

// All ways to differ that any combination has (paths_of), every strategy, and a return with every
// overlay, for all turns of the suites.
TEST(Combinations, InTheGateEveryPartIsTried) {
  std::set<std::string> paths;
  for (const Variant<OverlayEntry>& overlay : overlay_variants())
    for (const Combination& c : all_combinations_with(overlay))
      for (const std::string& one : paths_of(c)) paths.insert(one);
  for (std::size_t turn = 0; turn < 7; ++turn) {
    SCOPED_TRACE(turn);
    std::set<std::string> met, returns;
    std::set<const SyncEntry*> syncs;
    for (const Combination& c : in_the_gate(turn)) {
      for (const std::string& one : paths_of(c)) met.insert(one);
      syncs.insert(c.sync.entry);
      if (c.sync.entry->traits.lets_return && !c.sync.entry->traits.served)
        returns.insert(std::string(c.overlay.entry->name));
    }
    EXPECT_EQ(met, paths);
    EXPECT_EQ(syncs.size(), sync::registry().size());
    EXPECT_EQ(returns.size(), overlay::registry().size());
    EXPECT_LE(in_the_gate(turn).size(), 2 * syncs.size());
  }
}

TEST(Combinations, OtherSettingsOfAnOverlayShareThem) {
  using longhaul::testing::kStride;
  if (kStride > 1) return;  // under a sanitizer they are not tried
  Variant<OverlayEntry> variant = overlay_variants().front();
  const std::size_t all = all_combinations_with(variant).size();
  EXPECT_EQ(combinations_with(variant).size(), all);
  std::set<std::string> names;
  for (variant.number = 1; variant.number <= kShare; ++variant.number) {
    EXPECT_LE(combinations_with(variant).size(), all / kShare + 1);
    for (const Combination& one : combinations_with(variant)) names.insert(one.name());
  }
  EXPECT_EQ(names.size(), all);
}

}  // namespace
}  // namespace longhaul::conformance
