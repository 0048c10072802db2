// Two sites and a witness (Role::witness): after the loss of a site at any moment the other site
// continues alone. Both continue after the loss of the witness.
#include <gtest/gtest.h>

#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

JobSpec two_and_a_witness(const Combination& parts) {
  JobSpec spec{.parts = parts,
               .workers = 2,
               .one_site_each = true,
               .witness = true,
               .rounds = kGate ? 4u : 8u};
  spec.world.detect = 20ms;
  return spec;
}

// One combination of each strategy, a served one with a follower, over the overlays in turn.
std::vector<JobSpec> one_of_each_strategy() {
  std::vector<JobSpec> specs;
  const auto overlays = tried_overlays();
  std::map<std::string, std::vector<Combination>> of;
  for (const auto& overlay : overlays)
    for (const Combination& one :
         kGate ? combinations_with(overlay) : all_combinations_with(overlay))
      of[std::string(one.sync.entry->name)].push_back(one);
  std::size_t turn = 0;
  for (const auto& [name, combinations] : of) {
    specs.push_back(two_and_a_witness(combinations[5 * turn++ % combinations.size()]));
    if (specs.back().parts.sync.entry->traits.served) specs.back().standby_every = 1;
  }
  return specs;
}

TEST(Witness, OneOfTwoGoesOnWithoutTheOther) {
  std::size_t went_on = 0, tried = 0;
  for (const JobSpec& spec : one_of_each_strategy()) {
    const std::uint64_t events = events_of(spec);
    ++tried;
    for (const Rank lost : {Rank(0), Rank(1), Rank(2)}) {
      if (longhaul::testing::kGate && lost != tried % 3) continue;
      const std::uint64_t at = events * (2 + lost) / 8;
      SCOPED_TRACE(spec.parts.name() + ", rank " + std::to_string(lost) + " lost at event " +
                   std::to_string(at));
      Job job(spec);
      job.world().inject(crash(lost, at));
      const Status ended = job.run();
      EXPECT_TRUE(ended) << (ended ? "" : ended.error().what);
      EXPECT_TRUE(job.world().finished());
      for (Rank rank = 0; rank < 3; ++rank)
        if (rank != lost) EXPECT_TRUE(job.world().node(rank).finished()) << rank;
      went_on += job.world().figures(lost).crashed;
    }
  }
  EXPECT_GT(went_on, longhaul::testing::kGate ? 13u : 40u);
}

TEST(Witness, WithoutOneTheOtherSaysWhatItLacks) {
  JobSpec spec = two_and_a_witness(all_combinations_with(tried_overlays().front()).front());
  spec.witness = false;
  Job job(spec);
  job.world().inject(crash(1, 60));
  const Status ended = job.run();
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().what.find("roles = [\"witness\"]"), std::string::npos)
      << ended.error().what;
}

}  // namespace
}  // namespace longhaul::conformance
