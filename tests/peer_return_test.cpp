// Strategies whose workers exchange with single peers. Workers are killed and return several times,
// at any moment, also while they receive the state or send it. All end with equal models; convex
// models at the optimum of all data.
#include <cmath>

#include <fmt/format.h>

#include "longhaul/sim/testing/checker.h"
#include "tests/repeated_deaths.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

struct PeerReturn : ::testing::TestWithParam<Variant<SyncEntry>> {};

// All ways to spread factors, beside means of the rest or with staleness; under a sanitizer two.
void add_sfb(std::vector<Variant<SyncEntry>>& all) {
  const Variant<SyncEntry> plain = variant_named(sync_variants(), "sfb");
  for (const char* spread : {"full", "tree", "site"})
    for (const std::int64_t staleness : {0, 1, 3}) {
      Variant<SyncEntry> one = plain;
      one.settings = {{"rule", {std::string("always")}},
                      {"spread", {std::string(spread)}},
                      {staleness == 0 ? "hash_every" : "staleness",
                       {staleness == 0 ? std::int64_t(1) : staleness}}};
      if (staleness == 0 && spread == std::string("site"))
        one.settings.push_back({"wait_free", {true}});
      one.number = std::size_t(staleness == 0 ? spread != std::string("full")
                                              : spread != std::string("tree") || staleness != 3);
      if (staleness == 1) one.settings.push_back({"sparse_v", {false}});  // another name
      all.push_back(one);
    }
  Variant<SyncEntry> partial = plain;
  partial.settings = {{"rule", {std::string("always")}},
                      {"spread", {std::string("partial")}},
                      {"mean_every", {std::int64_t(4)}}};
  all.push_back(partial);
}

std::vector<Variant<SyncEntry>> of_peers() {
  std::vector<Variant<SyncEntry>> all;
  for (const Variant<SyncEntry>& one : sync_variants())
    for (const char* name : {"lag", "adpsgd", "dpsgd", "noloco", "staleness_lab", "gadmm", "gaia",
                             "sfb", "ds_sync", "selmcast"})
      if (one.entry->name == std::string(name) && traits_of(one).lets_return) all.push_back(one);
  add_sfb(all);
  if (kStride > 1) std::erase_if(all, [](const auto& one) { return one.number > 0; });
  return all;
}
std::vector<Variant<SyncEntry>> of_convex_ones() {
  auto all = of_peers();
  std::erase_if(all, [](const auto& one) {
    return (one.entry->name != "lag" && one.entry->name != "gadmm") ||
           one.name() == "gadmm_dual_averaging";  // with any step only comes near it
  });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Sync, PeerReturn, ::testing::ValuesIn(of_peers()), kByName);
struct ConvexPeerReturn : PeerReturn {};
INSTANTIATE_TEST_SUITE_P(Sync, ConvexPeerReturn, ::testing::ValuesIn(of_convex_ones()), kByName);

// Answers how many have returned before the end.
std::uint64_t end_after_deaths(std::uint64_t every, Job& job) {
  sim::OrderChecker in_order;
  sim::EpochChecker agree;
  job.world().watch(in_order);
  job.world().watch(agree);
  RepeatedDeaths deaths{.job = job, .random = Random(job.spec().seed + 1000, {}), .every = every};
  deaths.next_at = deaths.random.below(every);
  deaths.play();
  return deaths.returned;
}

TEST_P(PeerReturn, KilledAgainAndAgainAllEndAlike) {
  std::uint64_t returned = 0, runs = 0;
  for (std::uint64_t seed = 1; seed <= 40; seed += kGate ? 40 : kStride > 1 ? 20 : 1) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    JobSpec spec = peers_spec(GetParam(), seed);
    if (kGate) spec.rounds = 20;
    Job job(spec);
    returned += end_after_deaths(50 + 100 * (seed % 9), job);
    ++runs;
  }
  EXPECT_GT(returned, runs);
}

struct LateEntry : PeerReturn {};
std::vector<Variant<SyncEntry>> that_enter_late() {
  std::vector<Variant<SyncEntry>> all;
  for (const char* name : {"dpsgd_complete", "noloco", "ds_sync", "selmcast"})
    all.push_back(variant_named(sync_variants(), name));
  return all;
}
INSTANTIATE_TEST_SUITE_P(Sync, LateEntry, ::testing::ValuesIn(that_enter_late()), kByName);

// Its link is slow: the model takes as long as many rounds of the others.
TEST_P(LateEntry, TheOthersDoNotWaitForTheModelOfAReturnedWorker) {
  constexpr Rank kBack = 4;
  JobSpec spec{.parts = plain(GetParam(), variant_named(overlay_variants(), "direct")),
               .workers = kSites,
               .one_site_each = true,
               .size = 20'000,
               .chunk_bytes = 4096,
               .rounds = 60};
  spec.tables = equal_tables(kSites, 100, 5ms, 20ms);
  spec.tables->network.sites[kBack] = equal_tables(1, 1, 5ms, 20ms).network.sites[0];
  Job job(spec);
  const auto rounds_of = [&](Rank rank) { return job.world().node(rank).strategy().rounds_done(); };
  while (rounds_of(0) < 5) ASSERT_TRUE(job.step());
  job.kill(kBack);
  while (!job.declared_lost(kBack)) ASSERT_TRUE(job.step());
  job.restart(kBack);
  while (!job.world().node(0).view().has(kBack)) ASSERT_TRUE(job.step());
  const Round before = rounds_of(0);
  while (rounds_of(kBack) == 0) ASSERT_TRUE(job.step());
  EXPECT_GE(rounds_of(0), before + 10);
  while (job.step()) {
  }
  expect_ended_alike(job);
}

// Each of three is lost and returns in turn. The senior worker that is left has returned, too.
TEST_P(LateEntry, AReturnedWorkerSendsItsModelAsSenior) {
  JobSpec spec = peers_spec(GetParam(), 1);
  spec.workers = 3;
  spec.rounds = 400;
  Job job(spec);
  const auto rounds_of = [&](Rank rank) { return job.world().node(rank).strategy().rounds_done(); };
  while (rounds_of(0) < 5) ASSERT_TRUE(job.step());
  for (const Rank rank : {2u, 1u, 0u}) {
    SCOPED_TRACE(rank);
    job.kill(rank);
    while (!job.declared_lost(rank)) ASSERT_TRUE(job.step());
    job.restart(rank);
    const Rank senior = rank == 0 ? 2 : 0;
    while (!job.world().node(senior).view().has(rank)) ASSERT_TRUE(job.step());
    while (rounds_of(rank) == 0) ASSERT_TRUE(job.step());
    ASSERT_LT(rounds_of(rank), spec.rounds) << "the run is over";
  }
  while (job.step()) {
  }
  expect_ended_alike(job);
}

// All take the senior worker's model at the end. Some have returned before; then the senior worker
// is lost, and one more.
TEST(DsSyncReturn, AFinalModelOfTheSeniorWorkerSurvivesTwoLosses) {
  JobSpec spec = peers_spec(variant_named(sync_variants(), "ds_sync"), 1);
  spec.parts.sync.settings.push_back({"final", {std::string("rank0")}});
  const auto ends_alike = [&](const RankList& back, Rank second, int first, int after) {
    SCOPED_TRACE(fmt::format("of {}, {}, then {}", spec.workers, first, after));
    Job job(spec);
    const auto rounds_of = [&](Rank r) { return job.world().node(r).strategy().rounds_done(); };
    const auto steps = [&](auto&& is_over) {
      while (!is_over() && job.step()) {
      }
    };
    steps([&] { return rounds_of(0) >= 4; });
    for (const Rank rank : back) {
      job.kill(rank);
      steps([&] { return job.declared_lost(rank); });
      job.restart(rank);
      steps([&] { return job.world().node(0).view().has(rank); });
      steps([&] { return rounds_of(rank) > 0; });
    }
    steps([&] { return rounds_of(0) + 1 >= spec.rounds; });
    for (int i = 0; i < first; ++i) job.step();
    if (!job.world().node(0).finished()) job.kill(0);
    for (int i = 0; i < after; ++i) job.step();
    if (!job.world().node(second).finished()) job.kill(second);
    steps([] { return false; });
    expect_ended_alike(job);
  };
  spec.rounds = 12;
  for (int first = kGate ? 10 : 0; first < (kGate ? 20 : 80); first += 10)
    for (int after = kGate ? 201 : 0; after < 214; after += 3)
      ends_alike({2}, after % 2 ? 1 : 4, first, after);
  // The one that is senior at the end has returned.
  spec.workers = 4;
  spec.rounds = 40;
  for (int first = 0; first < 60; first += kGate ? 20 : 4)
    for (int after = kGate ? 100 : 0; after < 214; after += kGate ? 40 : 3)
      ends_alike({2, 3}, 1, first, after);
}

// All updates of the lab are due after the end, so no model moves before it. Only a returned worker
// begins with another model: it has all held updates.
TEST(StalenessLabReturn, AWorkerBeginsWithAllThatTheOthersHold) {
  JobSpec spec = peers_spec(variant_named(sync_variants(), "staleness_lab"), 1);
  spec.parts.sync.settings = {{"delays", {std::string("constant")}},
                              {"max_delay", {std::int64_t(1000)}}};
  constexpr Rank kBack = 2;
  Job job(spec);
  const auto parameters = [&](Rank rank) {
    std::vector<float> all = job.params(rank);
    all.resize(all.size() - spec.buffers);
    return all;
  };
  const std::vector<float> start = parameters(0);
  while (job.world().node(0).strategy().rounds_done() < 9) ASSERT_TRUE(job.step());
  job.kill(kBack);
  while (!job.declared_lost(kBack)) ASSERT_TRUE(job.step());
  job.restart(kBack);
  while (job.world().node(kBack).strategy().rounds_done() == 0) ASSERT_TRUE(job.step());
  EXPECT_EQ(parameters(0), start);
  const std::vector<float> back = parameters(kBack);
  while (job.step()) {
  }
  expect_ended_alike(job);
  const std::vector<float> end = parameters(0);
  double square = 0, product = 0, way = 0;
  for (std::size_t i = 0; i < end.size(); ++i) {
    const double a = double(back[i]) - double(start[i]), b = double(end[i]) - double(start[i]);
    square += a * a, product += a * b, way += b * b;
  }
  EXPECT_GT(product, 0.9 * std::sqrt(square * way));  // towards the end model
  EXPECT_GT(square, 0.01 * way);
  EXPECT_LT(square, way);
}

// A returned worker counts with its new values only: the model comes to the optimum of all data,
// not to that of the workers which stayed.
TEST_P(ConvexPeerReturn, AModelComesToTheOptimumOfAll) {
  std::uint64_t compared = 0;
  for (std::uint64_t seed = 1; seed <= 6; seed += kStride > 1 ? 6 : 1) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    JobSpec spec = peers_spec(GetParam(), seed);
    spec.rounds = kGate ? 200 : 600;
    spec.size = 20;
    spec.buffers = 0;
    Job job(spec);
    EXPECT_GT(end_after_deaths(400, job), 0u);
    if (job.living() < kSites) continue;  // the run was over before the last could return
    ++compared;
    EXPECT_LT(job.distance(), 0.01 * job.start_distance());
  }
  EXPECT_GT(compared, 0u);
}

}  // namespace
}  // namespace longhaul::conformance
