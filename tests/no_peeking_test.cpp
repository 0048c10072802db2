// No part reads the tables of links and speeds: with other tables a job takes other times and comes
// to the same numbers.
#include <array>

#include <gtest/gtest.h>

#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

struct NoPeeking : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, NoPeeking, ::testing::ValuesIn(tried_overlays()), kByName);

TEST_P(NoPeeking, FalseTablesChangeTimesAlone) {
  std::size_t turn = GetParam().name().size();
  for (const Combination& parts : combinations_with(GetParam(), 1)) {
    ++turn;
    for (std::uint32_t workers : {2u, 5u}) {
      if (kGate && workers != std::array{2u, 5u}[turn % 2]) continue;
      SCOPED_TRACE(parts.name() + " on " + std::to_string(workers));
      JobSpec spec{.parts = parts, .workers = workers, .rounds = 3};
      Job honest(spec);
      spec.tables = false_tables(members_of(spec));
      Job lied_to(spec);
      for (Job* job : {&honest, &lied_to}) {
        const Status status = job->run();
        ASSERT_TRUE(status) << status.error().what;
        EXPECT_TRUE(job->all_equal());
      }
      EXPECT_NE(honest.world().now(), lied_to.world().now());
      if (traits_of(parts.sync).bits != Bits::schedule &&
          parts.transfer.entry->traits.bits != Bits::schedule && !by_schedule(parts.overlay)) {
        EXPECT_EQ(honest.params(0), lied_to.params(0));
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::conformance
