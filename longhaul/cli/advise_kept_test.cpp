#include "longhaul/cli/advise_kept.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace longhaul::cli {
namespace {

TEST(KeptTrials, ComeBackAsTheyWereAndOnlyWithTheSameJob) {
  const std::string folder = ::testing::TempDir() + "kept-trials";
  std::filesystem::create_directories(folder);
  KeptTrials kept;
  kept.open(folder, false);
  Trial trial{.candidate = {}, .ran = true, .to_target = 1.25};
  trial.score = 0.875;
  trial.scored = true;
  trial.limit_s = 2.5;
  trial.summary.samples.computed = 77;
  kept.add("fedavg-hub", "job 1", trial);
  std::ofstream(folder + "/trials.jsonl", std::ios::app) << "{\"key\": torn\n";

  KeptTrials again;
  again.open(folder, true);
  const auto found = again.find("fedavg-hub", "job 1");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->to_target, 1.25);
  EXPECT_EQ(found->score, 0.875);
  EXPECT_EQ(found->limit_s, 2.5);
  EXPECT_EQ(found->summary.samples.computed, 77u);
  EXPECT_FALSE(again.find("fedavg-hub", "job 2"));
  EXPECT_FALSE(again.find("bsp", "job 1"));

  KeptTrials anew;
  anew.open(folder, false);
  EXPECT_FALSE(anew.find("fedavg-hub", "job 1"));
}

}  // namespace
}  // namespace longhaul::cli
