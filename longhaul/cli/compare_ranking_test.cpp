#include "longhaul/cli/compare_ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "longhaul/cli/compare_emit.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

run::Summary ranked_run(std::optional<double> to_target, double accuracy, std::uint64_t bytes) {
  run::Summary s;
  s.overlay = "ring";
  s.target_accuracy = 0.97;
  s.time_to_target_s = to_target;
  s.final_accuracy = accuracy;
  s.final_loss = 1 - accuracy;
  s.time_s = to_target.value_or(500);
  s.wan_bytes = bytes;
  s.nodes = 4;
  return s;
}

std::vector<std::string> labels_of(const std::vector<RankedGroup>& groups) {
  std::vector<std::string> labels;
  for (const RankedGroup& group : groups) labels.push_back(group.label);
  return labels;
}

TEST(CompareRanking, MedianTimeToTargetThenScore) {
  const auto groups = ranked({{"slow", ranked_run(90, 0.97, 10)},
                              {"near", ranked_run({}, 0.96, 10)},
                              {"fast", ranked_run(40, 0.97, 10)},
                              {"far", ranked_run({}, 0.5, 10)}},
                             {});
  EXPECT_EQ(labels_of(groups), (std::vector<std::string>{"fast", "slow", "near", "far"}));
  EXPECT_TRUE(has_winner(groups));
  EXPECT_THAT(verdict(groups), HasSubstr("fast is first: 97 % in 40.0 s"));
  EXPECT_THAT(verdict(groups), HasSubstr("2.25 times sooner than slow"));
}

TEST(CompareRanking, MostSeedsMustReachTheTarget) {
  const auto groups = ranked({{"lucky", ranked_run(10, 0.97, 1)},
                              {"lucky", ranked_run({}, 0.9, 1)},
                              {"sound", ranked_run(50, 0.97, 1)},
                              {"sound", ranked_run(70, 0.97, 1)},
                              {"sound", ranked_run({}, 0.96, 1)}},
                             {});
  EXPECT_EQ(labels_of(groups), (std::vector<std::string>{"sound", "lucky"}));
  ASSERT_TRUE(groups[0].target);
  EXPECT_EQ(groups[0].target->median, 70) << "one that does not get there takes longer";
  EXPECT_EQ(groups[0].target->max, 70);
  EXPECT_FALSE(groups[1].target);
  EXPECT_THAT(ranking_text("job", groups, {}), HasSubstr("reached by 1 of 2"));
}

TEST(CompareRanking, DivergedComesLastAndIsNoWinner) {
  run::Summary diverged = ranked_run(1, 0.99, 1);
  diverged.stop_reason = run::StopReason::diverged;
  const auto groups = ranked({{"broken", diverged}}, {});
  EXPECT_FALSE(has_winner(groups));
  const auto two = ranked({{"broken", diverged}, {"none", ranked_run({}, 0.1, 1)}}, {});
  EXPECT_EQ(two.back().label, "broken");
  EXPECT_THAT(verdict(two), HasSubstr("none reached 97 % within the budget"));
}

TEST(CompareRanking, LessTrafficBreaksATie) {
  const auto groups =
      ranked({{"much", ranked_run(5, 0.97, 100)}, {"little", ranked_run(5, 0.97, 10)}}, {});
  EXPECT_EQ(groups.front().label, "little");
}

// As a report orders them (Verdict.TiesGoToFewerBytesThenToTheName).
TEST(CompareRanking, TheScoreDoesNotOrderThoseThatReachTheTargetTogether) {
  const auto groups = ranked({{"c", ranked_run(5, 0.99, 100)},
                              {"b", ranked_run(5, 0.97, 10)},
                              {"a", ranked_run(5, 0.98, 10)}},
                             {});
  EXPECT_EQ(labels_of(groups), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(CompareRanking, PricesAddAColumn) {
  run::CostTable prices;
  prices.wan_gb = 0.5;
  prices.node_hour = 3.6;
  prices.currency = "EUR";
  const auto groups = ranked({{"a", ranked_run(100, 0.97, 4'000'000'000)}}, prices);
  ASSERT_TRUE(groups[0].cost);
  EXPECT_NEAR(*groups[0].cost, 4 * 0.5 + 3.6 * 4 * 100 / 3600, 1e-9);
  EXPECT_THAT(ranking_text("job", groups, prices), HasSubstr("cost EUR"));
}

TEST(CompareEmit, OneTaskARun) {
  const std::vector<EmittedTask> tasks = {{"a-ring", {"simulate", "runs/a b.toml"}},
                                          {"b", {"simulate", "c.toml"}}};
  EXPECT_EQ(emitted_tasks("parallel", "job", "/bin/longhaul", tasks),
            "/bin/longhaul simulate 'runs/a b.toml'\n/bin/longhaul simulate c.toml\n");
  const std::string slurm = emitted_tasks("slurm", "job", "longhaul", tasks);
  EXPECT_THAT(slurm, HasSubstr("--array=0-1"));
  EXPECT_THAT(slurm, HasSubstr("'longhaul simulate '\\''runs/a b.toml'\\'''"));
  const std::string k8s = emitted_tasks("k8s", "job", "longhaul", tasks);
  EXPECT_THAT(k8s, HasSubstr("name: longhaul-a-ring-0"));
  EXPECT_THAT(k8s, HasSubstr("command: [\"longhaul\", \"simulate\", \"runs/a b.toml\"]"));
}

}  // namespace
}  // namespace longhaul::cli
