// A peer dies at any moment: what is declared happens, and nothing hangs.
#include <algorithm>

#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

struct Loss : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, Loss, ::testing::ValuesIn(tried_overlays()), kByName);

// A strategy that talks to a server by itself ends with it, unless all workers have the last model.
bool ends_with_its_server(const JobSpec& spec) {
  const Rank server = spec.server_apart ? spec.workers : 0;
  return spec.parts.sync.entry->traits.served &&
         std::any_of(spec.faults.begin(), spec.faults.end(), [&](const sim::Fault& fault) {
           const bool cut = fault.kind == sim::Fault::Kind::cut;
           return fault.rank == server || (cut && fault.peer == server);
         });
}

void expect_as_declared(const JobSpec& spec, std::vector<sim::Fault> faults) {
  JobSpec with = spec;
  with.faults = std::move(faults);
  Job job(with);
  const Status status = job.run();
  if (!status && ends_with_its_server(with)) {
    EXPECT_EQ(status.error().kind, Error::Kind::state_lost);
    expect_says(status.error(), "the server is lost");
    return;
  }
  ASSERT_TRUE(status) << status.error().what;
  expect_ended_alike(job);
}

TEST_P(Loss, OfOneAtManyMomentsEndsAsDeclared) {
  const auto all = combinations_with(GetParam(), 5);
  for (std::uint32_t workers : {3u, 5u}) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      // In the gate a combination has one moment, and one of the counts.
      const std::size_t turn = i + GetParam().name().size();
      if (kGate && (workers == 3) != (turn % 3 == 0)) continue;
      JobSpec spec{.parts = all[i], .workers = workers, .rounds = 3};
      const std::uint64_t events = events_of(spec);
      const std::uint64_t first = kGate ? turn % 7 * events / 7 + i : i;
      // Steps that share no factor with much: other moments for every combination.
      for (std::uint64_t at = first; at < events;
           at += kStride * events / (workers == 3 ? 13 : 5) + 1) {
        const Rank lost = Rank((at + i) % workers);
        SCOPED_TRACE(all[i].name() + " on " + std::to_string(workers) + ", rank " +
                     std::to_string(lost) + " lost at event " + std::to_string(at));
        expect_as_declared(spec, {crash(lost, at)});
      }
    }
  }
}

TEST_P(Loss, OfTheServerAndOfTwoEndsAsDeclared) {
  const auto all = combinations_with(GetParam(), 5);
  for (std::size_t i = 0; i < all.size(); i += kGate ? 2 : 1) {
    JobSpec spec{.parts = all[i], .workers = 5, .server_apart = true, .rounds = kGate ? 2u : 3u};
    const std::uint64_t events = events_of(spec);
    for (std::uint64_t at : {events / 5, events / 2}) {
      if (kGate && (at == events / 2) != (i % 4 == 0)) continue;
      SCOPED_TRACE(all[i].name() + " at event " + std::to_string(at));
      expect_as_declared(spec, {crash(5, at), crash(Rank(i % 5), at + 30 * i)});
    }
  }
}

// All are done, and the node that announces it dies before all know.
TEST_P(Loss, OfTheLowestWhileAllFinishIsNoLoss) {
  const auto all = combinations_with(GetParam(), 5);
  for (std::size_t i = 0; i < all.size(); i += kGate ? 2 : 1) {
    JobSpec spec{.parts = all[i], .workers = 5, .rounds = 2};
    const std::uint64_t events = events_of(spec);
    for (std::uint64_t back = 1 + (kGate ? 5 * i % 23 : i % kStride); back < 24;
         back += 2 * kStride) {
      SCOPED_TRACE(all[i].name() + ", " + std::to_string(back) + " events before the end");
      expect_as_declared(spec, {crash(0, events - back)});
    }
  }
}

// If a strategy draws the workers of a round, and all of them are lost, the round is empty.
TEST_P(Loss, OfAllThatWereDrawnLeavesAnEmptyRound) {
  auto all = combinations_with(GetParam(), 5);
  if (kGate) all.push_back(plain(variant_named(sync_variants(), "fedavg"), GetParam()));
  for (const Combination& parts : all) {
    for (const FieldDoc& doc : parts.sync.entry->describe()) {
      if (doc.field.name != "fraction") continue;
      JobSpec spec{.parts = parts, .workers = 3, .rounds = 3};
      spec.parts.sync.settings.push_back({"fraction", {0.3}});
      const std::uint64_t events = events_of(spec);
      for (std::uint64_t at = 2; at < events; at += (kGate ? 8 : kStride) * events / 19 + 1) {
        SCOPED_TRACE(parts.name() + " at event " + std::to_string(at));
        expect_as_declared(spec, {crash(Rank(at % 3), at)});
      }
    }
  }
}

// A link that is cut for less than it takes to notice is waited for. One that is cut for longer
// leaves both its ends alive: the others agree on one of them, and the other one ends.
TEST_P(Loss, OfTouchEndsAsDeclared) {
  using namespace std::chrono_literals;
  const auto all = combinations_with(GetParam(), 5);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const Time until : {Time(5s), sim::kForever}) {
      if (kGate && (until == sim::kForever) != (i % 2 == 0)) continue;
      SCOPED_TRACE(all[i].name() + " until " + std::to_string(seconds(until)) + " s");
      JobSpec spec{.parts = all[i], .workers = 3, .rounds = 3};
      spec.faults = {{.kind = sim::Fault::Kind::cut,
                      .rank = Rank(i % 3),
                      .peer = Rank((i + 1) % 3),
                      .at = 100ms,
                      .until = until}};
      Job job(spec);
      const Status status = job.run();
      // The lost node may be the server.
      if (!status && until == sim::kForever && ends_with_its_server(spec)) {
        expect_says(status.error(), "the server is lost");
        continue;
      }
      ASSERT_TRUE(status) << status.error().what;
      EXPECT_TRUE(job.all_equal());
      EXPECT_GE(job.living(), until == Time(5s) ? 3u : 2u);
    }
  }
}

}  // namespace
}  // namespace longhaul::conformance
