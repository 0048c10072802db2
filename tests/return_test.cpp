// A node that was lost comes back with nothing, at any moment: where the strategy lets it, it is
// let in, is given what the others know and ends with the same bits. Nothing hangs, whoever dies
// meanwhile.
#include <array>

#include "longhaul/sim/testing/checker.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

struct Return : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, Return, ::testing::ValuesIn(tried_overlays()), kByName);

std::vector<Combination> that_let_return(const Variant<OverlayEntry>& overlay) {
  std::vector<Combination> all;
  if (kGate) {
    all = combinations_with(overlay, 6);
    std::erase_if(all, [](const auto& one) { return !traits_of(one.sync).lets_return; });
    return all;
  }
  std::size_t number = overlay.name().size();
  for (const Combination& one : all_combinations_with(overlay)) {
    if (!traits_of(one.sync).lets_return) continue;
    // Under a sanitizer each overlay tries a share, another one each.
    if (kStride > 1 && ++number % kSanitized != 0) continue;
    // Those with a server do not exchange over it: under a sanitizer one overlay will do.
    if (kStride > 1 && one.sync.entry->traits.served && overlay.entry->name != "hub") continue;
    all.push_back(one);
  }
  return all;
}

JobSpec spec_of(const Combination& parts) {
  JobSpec spec{.parts = parts, .workers = 5, .one_site_each = true, .rounds = kGate ? 6u : 12u};
  spec.world.detect = 20ms;
  return spec;
}

// The death of a server without a standby ends the run.
bool may_die(const Combination& parts, Rank rank) {
  return rank != 0 || !parts.sync.entry->traits.served;
}

struct Story {
  Rank lost = 0;
  std::uint64_t at = 0, later = 0;  // events: of the loss, from being declared lost to return
  std::optional<Rank> also = {};    // dies too ...
  std::uint64_t then = 0;           // ... so many events after the return
  bool both = false;                // and comes back as well, as soon as it may
};

// Answers whether the node came back before the run was over.
bool play(const Story& story, Job& job) {
  sim::OrderChecker in_order;
  sim::EpochChecker agree;
  job.world().watch(in_order);
  job.world().watch(agree);
  job.world().inject(crash(story.lost, story.at));
  while (!job.declared_lost(story.lost))
    if (!job.step()) return false;
  for (std::uint64_t i = 0; i < story.later; ++i)
    if (!job.step()) return false;
  job.restart(story.lost);
  if (story.also) job.kill(*story.also, story.then);
  bool waits = story.both;
  while (job.step()) {
    if (!waits || !job.declared_lost(*story.also)) continue;
    waits = false;
    job.restart(*story.also);
  }
  // Whoever was let in has come to the end, or died before it and is declared lost.
  for (Rank rank = 0; rank < job.world().size(); ++rank)
    for (Rank other = 0; other < job.world().size(); ++other)
      if (job.world().figures(rank).crashed && !job.world().figures(rank).finished_at &&
          !job.world().figures(other).crashed) {
        EXPECT_FALSE(job.world().node(other).view().has(rank)) << rank;
      }
  expect_ended_alike(job);
  return true;
}

// Other settings of an overlay try a share of the moments.
std::uint64_t thin(const Variant<OverlayEntry>& overlay) {
  return kStride * (overlay.number == 0 ? 1 : kShare);
}

TEST_P(Return, StrategiesLetReturnAsTheirEntriesSay) {
  for (const Combination& parts : plains_with(GetParam())) {
    Job job(spec_of(parts));
    for (Rank rank = 0; rank < job.world().size(); ++rank)
      EXPECT_EQ(job.world().node(rank).strategy().lets_return(), traits_of(parts.sync).lets_return)
          << parts.name() << ", rank " << rank;
  }
}

TEST_P(Return, OfOneAtManyMomentsEndsAlike) {
  const auto all = that_let_return(GetParam());
  std::uint64_t came_back = 0, computed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const JobSpec spec = spec_of(all[i]);
    const std::uint64_t first = kGate ? 3 + 31 * i % 100 : i;
    const std::uint64_t events = kGate ? 2 * first + 1 : events_of(spec);  // one moment each
    const std::uint64_t back_before = came_back, computed_before = computed;
    for (std::uint64_t at = first; at < events / 2 + kGate;
         at += thin(GetParam()) * events / 9 + 1) {
      const Rank one = Rank((at + i) % 5);
      const Story story{.lost = may_die(all[i], one) ? one : Rank(1), .at = at, .later = at % 97};
      SCOPED_TRACE(all[i].name() + ", rank " + std::to_string(story.lost) + " lost at event " +
                   std::to_string(at));
      Job job(spec);
      if (!play(story, job)) continue;
      ++came_back;
      const Rank lost = story.lost;
      computed += job.world().figures(lost).steps > 0 && !job.world().figures(lost).crashed;
    }
    if (came_back - back_before >= 3) EXPECT_GT(computed, computed_before) << all[i].name();
  }
  EXPECT_GT(came_back, 0u);
  EXPECT_GT(computed, 0u);
}

// The one that hands over, or another, dies while the node comes back.
TEST_P(Return, WhileAnotherDiesEndsAlike) {
  const auto all = that_let_return(GetParam());
  std::uint64_t came_back = 0;
  for (std::size_t i = 0; i < all.size(); i += kGate ? 2 : 1) {
    const JobSpec spec = spec_of(all[i]);
    const std::uint64_t first = kGate ? 79 * i % 120 : i;
    for (std::uint64_t then = first; then < 1200; then += thin(GetParam()) * 53) {
      const Story story{
          .lost = Rank(1 + then % 4),
          .at = kGate ? 30 + 7 * then % 100 : 100 + 7 * then % 400,
          .later = then % 31,
          .also = then % 3 == 0 || !may_die(all[i], 0) ? Rank(1 + (then + 1) % 4) : Rank(0),
          .then = then,
          .both = then % 2 == 0};
      SCOPED_TRACE(all[i].name() + ", rank " + std::to_string(story.lost) + " back, rank " +
                   std::to_string(*story.also) + " lost " + std::to_string(then) + " events later");
      Job job(spec);
      came_back += play(story, job);
    }
  }
  EXPECT_GT(came_back, 0u);
}

// It dies again before the others have declared it lost, comes back, and dies for good when it is
// in.
TEST_P(Return, OfOneThatDiesThriceEndsAlike) {
  const auto all = that_let_return(GetParam());
  JobSpec spec = spec_of(all.front());
  spec.rounds = kGate ? 18 : 12;  // shorter ones
  SCOPED_TRACE(all.front().name());
  constexpr Rank kLost = 3;
  Job job(spec);
  const auto until = [&](const auto& holds) {
    while (!holds())
      if (!job.step()) return false;
    return true;
  };
  const auto dies = [&](std::uint64_t events_later) {
    job.kill(kLost, events_later);
    return until([&] { return job.world().figures(kLost).crashed; });
  };
  const auto is_lost = [&] {  // its process before: it lives again
    for (Rank rank = 0; rank < job.world().size(); ++rank)
      if (rank != kLost && job.world().node(rank).view().has(kLost)) return false;
    return true;
  };
  const auto is_in = [&] {
    for (Rank rank = 0; rank < job.world().size(); ++rank)
      if (!job.world().node(rank).view().has(kLost)) return false;
    return true;
  };
  ASSERT_TRUE(dies(100));
  job.restart(kLost);  // the others have not noticed, and do not speak with it yet
  ASSERT_TRUE(dies(2));
  ASSERT_TRUE(is_in());
  job.restart(kLost);
  ASSERT_TRUE(until(is_lost) && until(is_in) && dies(1));
  while (job.step()) {
  }
  expect_ended_alike(job);
}

TEST_P(Return, OfAServerEndsAlike) {
  constexpr std::array kMoments = {50u, kGate ? 100u : 300u, kGate ? 200u : 700u};
  std::size_t number = 0;
  for (const Combination& parts : that_let_return(GetParam())) {
    if (parts.sync.entry->traits.served) continue;
    if (++number % 2 == 0 && kGate) continue;
    JobSpec spec = spec_of(parts);
    spec.server_apart = true;
    for (const std::uint64_t at : kMoments) {
      // Under a sanitizer each combination at one moment, by turns.
      if (kStride > 1 && at != kMoments[number % kMoments.size()]) continue;
      SCOPED_TRACE(parts.name() + " at event " + std::to_string(at));
      Job job(spec);
      (void)play({.lost = 5, .at = at, .later = at % 41}, job);
    }
  }
}

// A worker is back, and perhaps not yet told who serves, when the server dies for good.
TEST_P(Return, OfAWorkerOfAServerThatDiesEndsTheRun) {
  std::size_t number = 0, came_back = 0;
  for (const Combination& parts : that_let_return(GetParam())) {
    if (!parts.sync.entry->traits.served) continue;
    const JobSpec spec = spec_of(parts);
    for (std::uint64_t then = number++ % 3; then < 120; then += 3 * (kGate         ? 41
                                                                     : kStride > 1 ? 7
                                                                                   : 1)) {
      SCOPED_TRACE(parts.name() + ", the server lost " + std::to_string(then) + " events later");
      Job job(spec);
      job.world().inject(crash(2, 150));
      while (!job.declared_lost(2) && job.step()) {
      }
      if (job.failure() || job.world().finished()) continue;
      job.restart(2);
      ++came_back;
      job.kill(0, then);
      while (job.step()) {
      }
      if (job.failure())
        expect_says(*job.failure(), "the server is lost");
      else
        EXPECT_TRUE(job.world().finished());
    }
  }
  EXPECT_TRUE(number == 0 || came_back > 0);
}

}  // namespace
}  // namespace longhaul::conformance
