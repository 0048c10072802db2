// A node that was lost comes back with nothing, at any moment: where the strategy lets it, it is
// let in, is given what the others know and ends with the same bits. Nothing hangs, whoever dies
// meanwhile.
#include <gtest/gtest.h>

#include <array>

#include "longhaul/sim/checker.h"
#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

struct Return : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, Return, ::testing::ValuesIn(tried_overlays()),
                         [](const auto& info) { return info.param.name(); });

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

bool declared_lost(Job& job, Rank lost) {
  for (Rank rank = 0; rank < job.world().size(); ++rank)
    if (rank != lost && !job.world().figures(rank).crashed &&
        job.world().node(rank).view().has(lost))
      return false;
  return true;
}

void expect_all_ended_alike(Job& job, const JobSpec& spec) {
  EXPECT_TRUE(job.all_equal());
  for (Rank rank = 0; rank < job.world().size(); ++rank) {
    if (job.world().figures(rank).crashed) continue;
    EXPECT_TRUE(job.world().node(rank).finished()) << rank;
    if (job.world().node(rank).place().me().is(Role::worker)) {
      EXPECT_EQ(job.world().node(rank).strategy().rounds_done(), spec.rounds) << rank;
    }
  }
  EXPECT_TRUE(job.bad_messages.empty()) << job.bad_messages.front();
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
bool play(const JobSpec& spec, const Story& story, Job& job) {
  sim::OrderChecker in_order;
  sim::EpochChecker agree;
  job.world().watch(in_order);
  job.world().watch(agree);
  job.world().inject({.kind = sim::Fault::Kind::crash, .rank = story.lost, .at_event = story.at});
  const auto step = [&] {
    const auto went = job.world().step();
    EXPECT_TRUE(went) << went.error().what;
    return went && *went;
  };
  while (!job.world().figures(story.lost).crashed || !declared_lost(job, story.lost))
    if (!step()) return false;
  for (std::uint64_t i = 0; i < story.later; ++i)
    if (!step()) return false;
  job.restart(story.lost);
  if (story.also) {
    const std::uint64_t event = job.world().counters().events + story.then;
    job.world().inject({.kind = sim::Fault::Kind::crash,
                        .rank = *story.also,
                        .at = sim::kForever,
                        .at_event = event});
  }
  bool waits = story.both;
  while (step()) {
    if (!waits || !job.world().figures(*story.also).crashed || !declared_lost(job, *story.also))
      continue;
    waits = false;
    job.restart(*story.also);
  }
  EXPECT_TRUE(job.world().finished());
  // Whoever was let in has come to the end, or died before it and is declared lost.
  for (Rank rank = 0; rank < job.world().size(); ++rank)
    for (Rank other = 0; other < job.world().size(); ++other)
      if (job.world().figures(rank).crashed && !job.world().figures(rank).finished_at &&
          !job.world().figures(other).crashed) {
        EXPECT_FALSE(job.world().node(other).view().has(rank)) << rank;
      }
  expect_all_ended_alike(job, spec);
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
      if (!play(spec, story, job)) continue;
      ++came_back;
      const Rank lost = story.lost;
      computed += job.world().figures(lost).steps > 0 && !job.world().figures(lost).crashed;
    }
    if (came_back - back_before >= 3) {
      EXPECT_GT(computed, computed_before) << all[i].name();
    }
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
      came_back += play(spec, story, job);
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
  const auto step = [&] {
    const auto went = job.world().step();
    EXPECT_TRUE(went) << went.error().what;
    return went && *went;
  };
  const auto until = [&](const auto& holds) {
    while (!holds())
      if (!step()) return false;
    return true;
  };
  const auto crash = [&](std::uint64_t events_later) {
    job.world().inject({.kind = sim::Fault::Kind::crash,
                        .rank = kLost,
                        .at = sim::kForever,
                        .at_event = job.world().counters().events + events_later});
    return until([&] { return job.world().figures(kLost).crashed; });
  };
  const auto is_lost = [&] { return declared_lost(job, kLost); };
  const auto is_in = [&] {
    for (Rank rank = 0; rank < job.world().size(); ++rank)
      if (!job.world().node(rank).view().has(kLost)) return false;
    return true;
  };
  ASSERT_TRUE(crash(100));
  job.restart(kLost);  // the others have not noticed, and do not speak with it yet
  ASSERT_TRUE(crash(2));
  ASSERT_TRUE(is_in());
  job.restart(kLost);
  ASSERT_TRUE(until(is_lost) && until(is_in) && crash(1));
  while (step()) {
  }
  EXPECT_TRUE(job.world().finished());
  expect_all_ended_alike(job, spec);
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
      (void)play(spec, {.lost = 5, .at = at, .later = at % 41}, job);
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
      job.world().inject({.kind = sim::Fault::Kind::crash, .rank = 2, .at_event = 150});
      std::optional<Error> ended;
      const auto step = [&] {
        const auto went = job.world().step();
        if (!went) ended = went.error();
        return went && *went;
      };
      while ((!job.world().figures(2).crashed || !declared_lost(job, 2)) && step()) {
      }
      if (ended || job.world().finished()) continue;
      job.restart(2);
      ++came_back;
      job.world().inject({.kind = sim::Fault::Kind::crash,
                          .rank = 0,
                          .at = sim::kForever,
                          .at_event = job.world().counters().events + then});
      while (step()) {
      }
      if (!ended) {
        EXPECT_TRUE(job.world().finished());
        continue;
      }
      EXPECT_NE(ended->what.find("the server is lost"), std::string::npos) << ended->what;
    }
  }
  EXPECT_TRUE(number == 0 || came_back > 0);
}

}  // namespace
}  // namespace longhaul::conformance
