// A world that is saved after any event and loaded into a new one continues with the same bits.
#include <gtest/gtest.h>

#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

struct Resume : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, Resume, ::testing::ValuesIn(tried_overlays()), kByName);

// Runs the job in worlds that live for `stride` events each.
void expect_equal_in_pieces(const JobSpec& spec, std::uint64_t stride) {
  Job whole(spec);
  ASSERT_TRUE(runs(whole));
  auto job = std::make_unique<Job>(spec);
  for (bool more = true; more;) {
    for (std::uint64_t i = 0; more && i < stride; ++i) {
      const Result<bool> step = job->world().step();
      ASSERT_TRUE(step) << step.error().what;
      more = *step;
    }
    auto next = std::make_unique<Job>(spec);
    next->load(job->save());
    job = std::move(next);
  }
  EXPECT_EQ(job->world().now(), whole.world().now());
  EXPECT_EQ(job->world().counters().events, whole.world().counters().events);
  EXPECT_EQ(job->witness().hash(), whole.witness().hash());
  for (Rank rank = 0; rank < spec.workers; ++rank) EXPECT_EQ(job->params(rank), whole.params(rank));
}

TEST_P(Resume, AfterEveryEventEqualsGoingOn) {
  for (const Combination& parts : combinations_with(GetParam(), 4)) {
    SCOPED_TRACE(parts.name());
    expect_equal_in_pieces({.parts = parts, .workers = 2, .rounds = 2}, kStride);
  }
}

TEST_P(Resume, AfterEveryFewEventsEqualsGoingOn) {
  for (const Combination& parts : combinations_with(GetParam(), 4)) {
    SCOPED_TRACE(parts.name());
    JobSpec spec{.parts = parts, .workers = 3, .server_apart = true, .rounds = 4};
    spec.stop.max_samples = 30;  // 12 or 24 a round: reached before the last
    spec.world.threads = 1;
    expect_equal_in_pieces(spec, kGate ? 397 : 41 * kStride);
  }
}

// Also while a loss is being settled.
TEST_P(Resume, InTheMidstOfALoss) {
  const auto all = combinations_with(GetParam(), 4);
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].name());
    const std::uint64_t at = kGate ? 60 + 45 * (i % 5) : 120 + 90 * i;
    JobSpec spec{.parts = all[i], .workers = 3, .rounds = 3};
    spec.faults = {crash(1, at)};
    expect_equal_in_pieces(spec, kGate ? 151 : 17);
  }
}

}  // namespace
}  // namespace longhaul::conformance
