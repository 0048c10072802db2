#include "longhaul/cli/advise_candidates.h"

#include <fstream>

#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::cli {
namespace {

// The first candidates of a job with this [stop], of the first `most` combinations.
std::vector<Candidate> first_of(const std::string& stop, std::size_t most, double mbps = 10) {
  RunOptions options;
  options.job = ::testing::TempDir() + "candidates.toml";
  std::ofstream(options.job) << "stop = " << stop << R"(
model = {kind = "phantom", mbytes = 0.1}
sync = {kind = "fedavg", steps = 4}
wan = {delay_ms = 20, mbps = )"
                             << mbps << R"(}
site = [{name = "tokyo", step_ms = 10}, {name = "lima", step_ms = 15}]
)";
  AdviseCandidates all(options, *good(options.load()), true);
  std::size_t asked = 0;
  EXPECT_TRUE(all.predict_all([&] { return ++asked > most; }));
  return all.first();
}

TEST(AdviseCandidates, DoNotDependOnTheRoundsOfTheJob) {
  const auto few = first_of("{max_rounds = 1}", 14), many = first_of("{max_rounds = 9999}", 14);
  ASSERT_GT(few.size(), 6u);
  EXPECT_EQ(few, many);
  for (std::size_t i = 0; i < few.size(); ++i)
    EXPECT_EQ(few[i].samples_per_s, many[i].samples_per_s) << few[i].label;
}

// The first rounds of adpsgd on a slow network all end with the same exchange of models.
TEST(AdviseCandidates, NoneComputesFasterThanItsWorkers) {
  const auto first = first_of("{max_rounds = 1}", 36, 0.1);
  EXPECT_THAT(first, ::testing::Contains(::testing::Field(&Candidate::sync, "adpsgd")));
  for (const Candidate& one : first)
    EXPECT_LE(one.samples_per_s, 32 / 0.010 + 32 / 0.015 + 1) << one.label;
}

TEST(AdviseCandidates, EveryStrategyIsTriedOrNamedWithTheReason) {
  RunOptions options;
  options.job = ::testing::TempDir() + "refused.toml";
  std::ofstream(options.job) << R"(
model = {kind = "phantom", mbytes = 0.1}
sync = {kind = "fedavg", steps = 4}
codec = {kind = "sign"}
site = [{name = "tokyo"}, {name = "lima"}]
)";
  AdviseCandidates all(options, *good(options.load()), true);
  std::size_t asked = 0;
  EXPECT_TRUE(all.predict_all([&] { return ++asked > 12; }));
  EXPECT_THAT(all.refused(),
              ::testing::Contains(::testing::Pair("ds_sync", ::testing::HasSubstr("sign"))));
  EXPECT_FALSE(all.refused().contains("fedavg"));
  EXPECT_FALSE(all.refused().contains("lag"));  // in left_out(), whether it is legal or not
}

}  // namespace
}  // namespace longhaul::cli
