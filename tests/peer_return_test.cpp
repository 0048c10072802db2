// Strategies whose workers talk to single peers, when workers are killed and return several times:
// at any moments, also while they are given what the others know, and whoever gives it to them. All
// end, with equal models; convex ones at the optimum of all data.
#include <gtest/gtest.h>

#include "longhaul/sim/checker.h"
#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kSites = 5;

JobSpec peers_spec(const Variant<SyncEntry>& sync, std::uint64_t seed) {
  JobSpec spec{
      .parts = plain(sync, sync.entry->traits.served ? variant_named(overlay_variants(), "hub")
                                                     : overlay_variants().at(0)),
      .workers = kSites,
      .one_site_each = true,
      .size = 3 * 128,
      .rounds = 40,
      .seed = seed};
  if (std::ranges::any_of(sync.settings, [](const Setting& one) { return one.key == "staleness"; }))
    spec.momentum = 0;  // sfb's is for plain SGD
  Random random(seed, {});
  Tables tables = unequal_tables(members_of(spec));
  for (auto& speed : tables.speeds) speed.mean = std::chrono::milliseconds(1 + random.below(20));
  for (Rank from = 0; from < kSites; ++from)
    for (Rank to = 0; to < kSites; ++to)
      tables.network.links[{from, to}] = {flow::bytes_per_second(1 + double(random.below(20))),
                                          std::chrono::milliseconds(1 + random.below(40))};
  spec.tables = tables;
  spec.world.detect = 20ms;
  return spec;
}

// Kills and returns `deaths` workers, one or two at a time, and never all of those that the run
// began with. Answers how many have returned.
struct RepeatedDeaths {
  Job& job;
  Random random;
  std::uint64_t left = 4, every = 400;
  std::uint64_t next_at = 0;
  std::map<Rank, std::uint64_t> dead = {};  // events since it was declared lost
  std::uint64_t returned = 0;

  bool is_declared_lost(Rank lost) {
    for (Rank rank = 0; rank < kSites; ++rank)
      if (rank != lost && !job.world().figures(rank).crashed &&
          job.world().node(rank).view().has(lost))
        return false;
    return job.world().figures(lost).crashed;
  }
  // No living node waits to be let in, or is not known to all: two of five may die at a time.
  bool all_are_in_view() {
    std::size_t living = 0;
    for (Rank rank = 0; rank < kSites; ++rank) {
      if (job.world().figures(rank).crashed) continue;
      ++living;
      for (Rank other = 0; other < kSites; ++other)
        if (!job.world().figures(other).crashed && !job.world().node(rank).view().has(other))
          return false;
    }
    return living + dead.size() == kSites && living >= 4;
  }
  void kill() {
    const Rank rank = Rank(random.below(kSites));
    if (job.world().figures(rank).crashed || dead.size() >= 2 || !all_are_in_view() ||
        job.world().figures(rank).finished_at)
      return;
    dead[rank] = 0;
    --left;
    job.world().inject({.kind = sim::Fault::Kind::crash,
                        .rank = rank,
                        .at = sim::kForever,
                        .at_event = job.world().counters().events + 1});
  }
  void after_step() {
    if (left > 0 && job.world().counters().events >= next_at) {
      next_at = job.world().counters().events + 1 + random.below(every);
      kill();
    }
    for (auto it = dead.begin(); it != dead.end();) {
      it->second += is_declared_lost(it->first);
      const bool returns = it->second > 0 && random.below(60) == 0;
      if (returns) job.restart(it->first), ++returned;
      it = returns ? dead.erase(it) : std::next(it);
    }
  }
};

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
}

std::vector<Variant<SyncEntry>> of_peers() {
  std::vector<Variant<SyncEntry>> all;
  for (const Variant<SyncEntry>& one : sync_variants())
    for (const char* name : {"lag", "adpsgd", "dpsgd", "gadmm", "sfb"})
      if (one.entry->name == std::string(name) && traits_of(one).lets_return) all.push_back(one);
  add_sfb(all);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Sync, PeerReturn, ::testing::ValuesIn(of_peers()),
                         [](const auto& info) { return info.param.name(); });

// Answers how many have returned before the end.
std::uint64_t end_after_deaths(const JobSpec& spec, std::uint64_t every, Job& job) {
  sim::OrderChecker in_order;
  sim::EpochChecker agree;
  job.world().watch(in_order);
  job.world().watch(agree);
  RepeatedDeaths deaths{.job = job, .random = Random(spec.seed + 1000, {}), .every = every};
  deaths.next_at = deaths.random.below(every);
  while (true) {
    const auto went = job.world().step();
    EXPECT_TRUE(went) << went.error().what;
    if (!went || !*went) break;
    deaths.after_step();
  }
  EXPECT_TRUE(job.world().finished());
  EXPECT_TRUE(job.all_equal());
  EXPECT_TRUE(job.bad_messages.empty()) << job.bad_messages.front();
  for (Rank rank = 0; rank < kSites; ++rank) {
    if (job.world().figures(rank).crashed) continue;
    EXPECT_TRUE(job.world().node(rank).finished()) << rank;
    EXPECT_EQ(job.world().node(rank).strategy().rounds_done(), spec.rounds) << rank;
  }
  return deaths.returned;
}

TEST_P(PeerReturn, KilledAgainAndAgainAllEndAlike) {
  if (GetParam().number > 0 && kStride > 1) return;
  std::uint64_t returned = 0, runs = 0;
  for (std::uint64_t seed = 1; seed <= 40; seed += kStride > 1 ? 20 : 1) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const JobSpec spec = peers_spec(GetParam(), seed);
    Job job(spec);
    returned += end_after_deaths(spec, 50 + 100 * (seed % 9), job);
    ++runs;
  }
  EXPECT_GT(returned, runs);
}

// What the dead worker had told is forgotten, and what it tells anew counts: the optimum is that of
// all data, not of those who stayed.
TEST_P(PeerReturn, AConvexModelComesToTheOptimumOfAll) {
  const std::string name(GetParam().entry->name);
  if (name != "lag" && name != "gadmm") return;
  if (GetParam().name() == "gadmm_dual_averaging") return;  // with any step only comes near it
  if (GetParam().number > 0 && kStride > 1) return;
  std::uint64_t compared = 0;
  for (std::uint64_t seed = 1; seed <= 6; seed += kStride > 1 ? 6 : 1) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    JobSpec spec = peers_spec(GetParam(), seed);
    spec.rounds = 600;
    spec.size = 20;
    spec.buffers = 0;
    Job job(spec);
    EXPECT_GT(end_after_deaths(spec, 400, job), 0u);
    bool all_live = true;  // else the run was over before the last could return
    for (Rank rank = 0; rank < kSites; ++rank) all_live &= !job.world().figures(rank).crashed;
    if (!all_live) continue;
    ++compared;
    EXPECT_LT(job.distance(), 0.01 * job.start_distance());
  }
  EXPECT_GT(compared, 0u);
}

}  // namespace
}  // namespace longhaul::conformance
