#pragma once
// Workers that are killed and come back several times in a run, at any moments.
#include "tests/job_checks.h"

namespace longhaul::conformance {

inline constexpr std::uint32_t kSites = 5;

inline JobSpec peers_spec(const Variant<SyncEntry>& sync, std::uint64_t seed) {
  using namespace std::chrono_literals;
  JobSpec spec{
      .parts = plain(sync, sync.entry->traits.served ? variant_named(overlay_variants(), "hub")
                                                     : overlay_variants().at(0)),
      .workers = kSites,
      .one_site_each = true,
      .size = kGate ? 160u : 3 * 128,
      .rounds = 40,
      .seed = seed};
  if (std::ranges::any_of(sync.settings, [](const Setting& one) { return one.key == "staleness"; }))
    spec.momentum = 0;  // sfb's is for plain SGD
  Random random(seed, {});
  spec.tables = random_tables(spec, random, 20, 20, 40);
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
    job.kill(rank);
  }
  // To the end of the run. `look`: after each event.
  template <class Look>
  void play(Look&& look) {
    while (job.step()) {
      after_step();
      look();
    }
    expect_ended_alike(job);
  }
  void play() {
    play([] {});
  }
  void after_step() {
    if (left > 0 && job.world().counters().events >= next_at) {
      next_at = job.world().counters().events + 1 + random.below(every);
      kill();
    }
    for (auto it = dead.begin(); it != dead.end();) {
      it->second += job.declared_lost(it->first);
      const bool returns = it->second > 0 && random.below(60) == 0;
      if (returns) job.restart(it->first), ++returned;
      it = returns ? dead.erase(it) : std::next(it);
    }
  }
};

}  // namespace longhaul::conformance
