// Wrong, short, duplicate and late messages: an error that is told, or ignored; never a crash, and
// no way to change what the others compute.
#include <gtest/gtest.h>

#include "tests/hostile_network.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

struct HostileMessages : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, HostileMessages, ::testing::ValuesIn(tried_overlays()), kByName);

// With a server a round may be a single commit, of few messages.
Round rounds_of(const Combination& parts) {
  return !parts.sync.entry->traits.served ? 3 : kGate ? 6 : 9;
}

// Vectors of 65 chunks, in the gate 13: enough messages to abuse.
JobSpec honest_spec(const Combination& parts) {
  return {.parts = parts,
          .workers = 3,
          .size = (kGate ? 12 : 64) * 128 + 69,
          .rounds = rounds_of(parts)};
}

struct Abused {
  Abused(const Combination& parts, std::set<Abuse> kinds, double share, std::uint64_t seed)
      : job(spec(parts, std::move(kinds), share, seed)) {}
  JobSpec spec(const Combination& parts, std::set<Abuse> kinds, double share, std::uint64_t seed) {
    JobSpec spec = honest_spec(parts);
    spec.wrap = [=, this](std::unique_ptr<sim::Network> honest) {
      auto hostile = std::make_unique<HostileNetwork>(std::move(honest), kinds, share, seed);
      network = hostile.get();
      return hostile;
    };
    return spec;
  }
  HostileNetwork* network = nullptr;
  Job job;
};

TEST_P(HostileMessages, ThatCannotBeGenuineChangeNothing) {
  const std::set<Abuse> kinds = {Abuse::twice, Abuse::late, Abuse::cut_head, Abuse::cut_body,
                                 Abuse::unknown};
  for (const Combination& parts : combinations_with(GetParam(), 2)) {
    SCOPED_TRACE(parts.name());
    Job honest(honest_spec(parts));
    ASSERT_TRUE(honest.run());
    for (std::uint64_t seed = 1; seed <= (longhaul::testing::kGate ? 1u : 2u); ++seed) {
      Abused abused(parts, kinds, kGate ? 0.2 : 0.1, seed);
      ASSERT_TRUE(runs(abused.job));
      EXPECT_GT(abused.network->abused(), 50u);
      EXPECT_GT(abused.job.bad_messages.size(), 40u);
      EXPECT_EQ(abused.job.params(0), honest.params(0));
      EXPECT_TRUE(abused.job.all_equal());
      EXPECT_EQ(abused.job.world().now(), honest.world().now());
    }
  }
}

// A peer that lies in the fields themselves can stop a run, but only with a reason, or with a list
// of who waits for what; and it cannot make any node keep more and more.
TEST_P(HostileMessages, LiesEndInOrderOrWithAReason) {
  for (const Combination& parts : combinations_with(GetParam(), 2)) {
    SCOPED_TRACE(parts.name());
    for (std::uint64_t seed = 0; seed < 12; seed += kStride) {
      const double few = kGate ? 0.05 : 0.02;  // of fewer messages
      Abused abused(parts, {Abuse::lie}, seed % 2 == 0 ? few : 0.2, seed);
      std::size_t most = 0;
      for (bool more = true; more;) {
        const Result<bool> step = abused.job.world().step();
        EXPECT_TRUE(step || step.error().what.size() > 20);
        more = step && *step;
        if (abused.job.world().counters().events == 100000) {
          // Its trainers go on while the round beside them waits, and say for what.
          ASSERT_EQ(parts.sync.entry->name, "shadowsync") << "does not come to an end";
          std::string waits;
          for (Rank rank = 0; rank < 3; ++rank)
            waits += abused.job.world().node(rank).waiting_for();
          EXPECT_NE(waits, "");
          break;
        }
        if (abused.job.world().counters().events % 499 == 0)
          most = std::max(most, abused.job.largest_node_state());
      }
      // One lie that is believed may end a run: with rack the third of seed 8 leaves rank 0 waiting
      // for shares that the others never send; power_sgd has few messages.
      // A header that is believed may be the last one of its sender that a server takes.
      const bool has_few = parts.sync.entry->traits.served || parts.sync.entry->name == "power_sgd";
      EXPECT_GT(abused.network->abused(), has_few ? 0u : 2u);
      EXPECT_LT(most, std::size_t(16) << 20);
    }
  }
}

}  // namespace
}  // namespace longhaul::conformance
