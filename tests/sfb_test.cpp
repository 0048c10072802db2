// What sfb promises where messages and steps take any time.
#include "longhaul/sync/sfb.h"

#include "tests/repeated_deaths.h"

namespace longhaul::conformance {
namespace {

JobSpec sfb_spec(std::string spread, std::int64_t staleness) {
  Variant<SyncEntry> found = variant_named(sync_variants(), "sfb");
  found.settings = {{"spread", {std::move(spread)}},
                    {"staleness", {staleness}},
                    {"rule", {std::string("always")}},
                    {"hash_every", {std::int64_t(1)}}};
  JobSpec spec{.parts = plain(found, overlay_variants().at(0)),
               .workers = 5,
               .size = 300,
               .momentum = staleness == 0 ? 0.3f : 0,
               .rounds = kGate ? 8u : 12u};
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

// sync/sfb_test.cpp, invariant 6.
TEST(SfbInTime, RunningClocksDifferByStalenessAtMost) {
  for (const char* spread : {"full", "tree", "site", "partial"})
    for (const std::int64_t staleness : {0, 1, 2}) {
      if (staleness > 0 && spread == std::string("partial")) continue;  // is refused
      if (kGate && staleness == 1) continue;
      SCOPED_TRACE(std::string(spread) + " " + std::to_string(staleness));
      Job job(sfb_spec(spread, staleness));
      Clocks clocks;
      job.world().watch(clocks);
      expect_ends_alike(job);
      // One may have begun its next clock while another has not been told yet that it may.
      EXPECT_LE(clocks.most, Round(staleness + 1));
      EXPECT_GE(clocks.most, Round(staleness > 0 ? staleness : 1));
      EXPECT_LT(job.distance(), 0.6 * job.start_distance());
    }
}

// sync/sfb_test.cpp, invariant 14: with relays lost, too.
TEST(SfbInTime, SurvivorsEndWithEqualModels) {
  for (const char* spread : {"tree", "site"})
    for (const std::int64_t staleness : {0, 2}) {
      if (kGate && (staleness == 0) != (spread == std::string("tree"))) continue;
      JobSpec spec = sfb_spec(spread, staleness);
      const std::uint64_t events = events_of(spec);
      for (std::uint64_t at = 20; at < events; at += events / (kGate ? 3 : kStride > 1 ? 5 : 40)) {
        SCOPED_TRACE(std::string(spread) + " " + std::to_string(at));
        JobSpec lossy = spec;
        lossy.faults = {crash(Rank(at % 5), at)};
        Job job(lossy);
        expect_ends_alike(job);
      }
    }
}

// Models of the live workers when all have applied what they will, before they average: none has
// missed a gradient or applied one twice. False: one has ended before, or there are none.
bool equal_before_the_mean(Job& job) {
  std::vector<std::vector<float>> models;
  for (Rank rank = 0; rank < kSites; ++rank) {
    if (job.world().figures(rank).crashed) continue;
    const auto& sfb = dynamic_cast<const sync::Sfb&>(job.world().node(rank).strategy());
    if (!sfb.is_averaging()) return false;
    models.push_back(job.params(rank));
  }
  for (const auto& model : models)
    for (std::size_t i = 0; i + 5 < model.size(); ++i)  // buffers are a worker's own
      EXPECT_NEAR(model[i], models[0][i], 1e-4 * (1 + std::abs(models[0][i]))) << i;
  return !models.empty();
}

TEST(SfbInTime, AllApplyTheSameGradientsWhoeverComesBack) {
  std::uint64_t returned = 0, compared = 0;
  for (const char* spread : {"full", "tree", "site"})
    for (const std::int64_t staleness : {1, 3})
      for (std::uint64_t seed = 1; seed <= 20; seed += kStride > 1 ? 20 : 1) {
        if (kGate && (staleness == 1) != (spread == std::string("tree"))) continue;
        SCOPED_TRACE(std::string(spread) + " " + std::to_string(staleness) + " seed " +
                     std::to_string(seed));
        JobSpec spec = peers_spec(sfb_spec(spread, staleness).parts.sync, seed);
        spec.buffers = 5;
        if (kGate) spec.rounds = 15;
        Job job(spec);
        RepeatedDeaths deaths{.job = job, .random = Random(seed, {}), .every = 50 + 60 * seed};
        bool is_compared = false;
        deaths.play([&] {
          if (!is_compared) compared += is_compared = equal_before_the_mean(job);
        });
        returned += deaths.returned;
      }
  EXPECT_GT(returned, kGate ? 2u : kStride > 1 ? 3u : 60u);
  EXPECT_GT(compared, kGate ? 2u : kStride > 1 ? 3u : 100u);
}

// Partial spread, of a model that goes as factors alone: workers are in different clocks when one
// is lost or comes back.
JobSpec partial_spec(std::int64_t peers, std::uint64_t seed) {
  Variant<SyncEntry> sync = sfb_spec("partial", 0).parts.sync;
  sync.settings.push_back({"partial_peers", {peers}});
  sync.settings.push_back({"mean_every", {std::int64_t(6)}});
  JobSpec spec = peers_spec(sync, seed);
  spec.size = 8 * 17 + 3;
  spec.buffers = 3;
  spec.momentum = 0.3f;
  return spec;
}

TEST(SfbInTime, WithPartialSpreadAllEndAlikeWhoeverDiesAndComesBack) {
  std::uint64_t returned = 0, compared = 0;
  for (const std::int64_t peers : {1, 2, 4})
    for (std::uint64_t seed = kGate ? std::uint64_t(peers) : 1; seed <= 20; seed += kGate ? 20
                                                                                    : kStride > 1
                                                                                        ? 7
                                                                                        : 1) {
      SCOPED_TRACE(std::to_string(peers) + " peers, seed " + std::to_string(seed));
      JobSpec spec = partial_spec(peers, seed);
      spec.rounds = kGate ? 35 : 100;
      Job job(spec);
      RepeatedDeaths deaths{.job = job, .random = Random(seed, {}), .every = 50 + 60 * (seed % 9)};
      deaths.play();
      returned += deaths.returned;
      if (job.living() < kSites) continue;
      ++compared;
      EXPECT_LT(job.distance(), 0.1 * job.start_distance());
    }
  EXPECT_GT(returned, kGate ? 3u : kStride > 1 ? 9u : 60u);
  EXPECT_GT(compared, 0u);
}

// One founder after the other is killed and comes back, until none is left who was there from the
// start: also while those who came back have not had a mean with the others. All end alike, or the
// last say that nobody has the model any more. Answers whether they end.
bool end_after_all_founders_died(const JobSpec& spec, std::uint64_t most_between) {
  Job job(spec);
  RepeatedDeaths look{.job = job, .random = Random(spec.seed, {}), .left = 0};
  Rank victim = 0;
  bool is_dead = false;
  std::uint64_t next_at = look.random.below(200);
  while (job.step()) {
    const std::uint64_t now = job.world().counters().events;
    if (is_dead) {
      if (!job.declared_lost(victim)) continue;
      job.restart(victim);
      is_dead = false;
      look.dead.clear();
      ++victim;
      next_at = now + 1 + look.random.below(most_between);
    } else if (victim < kSites && now >= next_at && look.all_are_in_view() &&
               !job.world().figures(victim).finished_at) {
      job.kill(victim);
      look.dead[victim] = 0;
      is_dead = true;
    }
  }
  if (job.failure()) {
    expect_says(*job.failure(), "resume from a checkpoint");
    return false;
  }
  EXPECT_EQ(victim, kSites) << "the run is too short";
  expect_ended_alike(job);
  return true;
}

TEST(SfbInTime, WithPartialSpreadTheModelOutlivesAllWhoBeganOrItsLossIsSaid) {
  std::uint64_t ended = 0;
  for (const std::int64_t peers : {1, 2})
    for (std::uint64_t seed = kGate ? 15 * (2 - std::uint64_t(peers)) + 1 : 1; seed <= 30;
         seed += kGate         ? 30
                 : kStride > 1 ? 15
                               : 1) {
      SCOPED_TRACE(std::to_string(peers) + " peers, seed " + std::to_string(seed));
      JobSpec spec = partial_spec(peers, seed);
      spec.rounds = kGate ? 130 : 250;
      ended += end_after_all_founders_died(spec, seed % 3 == 0 ? 20 : 600);
    }
  EXPECT_GT(ended, kStride > 1 ? 0u : 15u);
}

// What one that has come back computes counts again, and only once: momentum, too, as before.
TEST(SfbInTime, TheModelComesToTheOptimumOfAll) {
  std::uint64_t compared = 0;
  for (const char* spread : {"full", "tree", "site"})
    for (std::uint64_t seed = 1; seed <= 6; seed += kStride > 1 ? 6 : 1) {
      if (kStride > 1 && spread != std::string("tree")) continue;
      SCOPED_TRACE(std::string(spread) + " seed " + std::to_string(seed));
      JobSpec spec = peers_spec(sfb_spec(spread, 0).parts.sync, seed);
      spec.rounds = kGate ? 50 : 150;
      spec.momentum = 0.3f;
      Job job(spec);
      RepeatedDeaths deaths{.job = job, .random = Random(seed, {}), .every = 400};
      deaths.play();
      if (job.living() < kSites || deaths.returned == 0) continue;
      ++compared;
      EXPECT_LT(job.distance(), 0.01 * job.start_distance());
    }
  EXPECT_GT(compared, 0u);
}

}  // namespace
}  // namespace longhaul::conformance
