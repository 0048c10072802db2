#include "longhaul/cli/compare_ranking.h"

#include <cmath>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "longhaul/report/seed_ranges.h"

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

using Runs = std::vector<std::pair<std::string, run::Summary>>;

// A run for each time to the target; none: that seed does not reach it.
void add_seeds(Runs& runs, const std::string& label,
               const std::vector<std::optional<double>>& times, double accuracy = 0.9) {
  for (const auto& time : times) runs.emplace_back(label, ranked_run(time, accuracy, 10'000'000));
}

std::vector<std::string> ties_of(const std::vector<RankedGroup>& groups) {
  std::vector<std::string> all;
  for (const RankedGroup& group : groups) all.push_back(to_json(group)["ties_with_best"].dump());
  return all;
}
using Words = std::vector<std::string>;

TEST(CompareRanking, MedianTimeToTargetThenScore) {
  Runs runs;
  add_seeds(runs, "slow", {80, 90, 95});
  add_seeds(runs, "near", {{}, {}}, 0.96);
  add_seeds(runs, "fast", {40, 35, 60});
  add_seeds(runs, "far", {{}, {}}, 0.5);
  const auto groups = ranked(runs, {});
  EXPECT_EQ(labels_of(groups), (Words{"fast", "slow", "near", "far"}));
  EXPECT_TRUE(has_winner(groups));
  EXPECT_EQ(verdict(groups),
            "fast is first: 97 % in 40.0 s with 10 MB between sites; 2.25 times sooner than slow "
            "(10 MB), by the median of 3 seeds");
  EXPECT_EQ(ties_of(groups), (Words{"false", "false", "false", "false"}));
  const std::string text = ranking_text("job", groups, {});
  EXPECT_THAT(text, HasSubstr("job, 3 seeds    overlay"));
  EXPECT_THAT(text, HasSubstr("  40.0 s (35.0 s to 60.0 s)  "));
  EXPECT_THAT(text, HasSubstr("near (2 seeds)  "));
  EXPECT_THAT(text, HasSubstr("  96.00 % (96.00 to 96.00)  ")) << "its place is by the score";
}

// As a report reads the same runs; the newest score on the way is not that of the final model.
std::vector<nlohmann::ordered_json> as_reported(const Runs& runs, double newest) {
  std::vector<nlohmann::ordered_json> all;
  for (const auto& [label, summary] : runs) {
    all.push_back({{"label", label},
                   {"score_unit", "accuracy"},
                   {"settings", {{"[sync] kind", label}, {"[job] seed", all.size()}}},
                   {"scores", {{"score", {newest}}}},
                   {"summary", to_json(summary)}});
    newest = 1 - newest;
  }
  return all;
}

TEST(CompareRanking, AReportOrdersTheSameRunsAlike) {
  Runs by_score, by_loss, by_time, diverged;
  add_seeds(by_score, "b", {{}, {}}, 0.6);
  add_seeds(by_score, "a", {{}, {}}, 0.5);
  add_seeds(by_loss, "b", {{}, {}}, 0);
  add_seeds(by_loss, "a", {{}, {}}, 0);
  by_loss[2].second.final_loss = by_loss[3].second.final_loss = 0.5;
  add_seeds(by_time, "b", {20, 30, {}});
  add_seeds(by_time, "a", {40, {}, 45});
  add_seeds(diverged, "a", {{}, {}}, 0.9);
  add_seeds(diverged, "b", {{}, {}}, 0.1);
  diverged[0].second.stop_reason = run::StopReason::diverged;
  for (const auto& [runs, first] : {std::pair(by_score, "b"), std::pair(by_loss, "a"),
                                    std::pair(by_time, "b"), std::pair(diverged, "b")}) {
    const auto groups = ranked(runs, {});
    const auto reported = as_reported(runs, 0.9);
    const auto others = report::seed_groups(reported);
    ASSERT_EQ(others.size(), groups.size());
    EXPECT_EQ(groups[0].label, first);
    const auto differences = report::group_differences(others);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      EXPECT_EQ(reported[std::size_t(others[i].runs[0] - reported.data())]["label"],
                groups[i].label);
      EXPECT_EQ(differences[i], groups[i].from_first);
    }
  }
}

TEST(CompareRanking, RangesThatOverlapAreATie) {
  Runs runs;
  add_seeds(runs, "c", {51, 60, 80});
  add_seeds(runs, "a", {30, 40, 50});
  add_seeds(runs, "b", {50, 55, 90});
  const auto groups = ranked(runs, {});
  EXPECT_EQ(labels_of(groups), (Words{"a", "b", "c"}));
  EXPECT_FALSE(has_winner(groups));
  EXPECT_EQ(verdict(groups),
            "a and b tie: the ranges of their times to 97 % over 3 seeds overlap; the best median "
            "is a's: 97 % in 40.0 s with 10 MB between sites");
  EXPECT_EQ(ties_of(groups), (Words{"true", "true", "false"}));
}

TEST(CompareRanking, ThreeTie) {
  Runs runs;
  add_seeds(runs, "a", {30, 60});
  add_seeds(runs, "b", {35, 61});
  add_seeds(runs, "c", {20, {}, 59});
  EXPECT_THAT(verdict(ranked(runs, {})), HasSubstr("a, b and c tie"));
  EXPECT_EQ(ties_of(ranked(runs, {})), (Words{"true", "true", "true"}));
}

TEST(CompareRanking, OneSeedCannotTell) {
  Runs runs;
  add_seeds(runs, "b", {90});
  add_seeds(runs, "a", {40});
  const auto groups = ranked(runs, {});
  EXPECT_FALSE(has_winner(groups));
  EXPECT_EQ(verdict(groups),
            "one seed cannot tell which is first (--seeds 3 may): a has 97 % in 40.0 s with 10 "
            "MB between sites, b has 97 % in 90.0 s with 10 MB between sites");
  EXPECT_EQ(ties_of(groups), (Words{"null", "null"}));
  EXPECT_THAT(ranking_text("job", groups, {}), HasSubstr("job, one seed  overlay"));
  add_seeds(runs, "a", {41});  // of b the second has not finished
  EXPECT_THAT(verdict(ranked(runs, {})), HasSubstr("one seed cannot tell which is first: a has "));
  const auto alone = ranked({{"a", ranked_run(40, 0.97, 10)}}, {});
  EXPECT_TRUE(has_winner(alone));
  EXPECT_EQ(verdict(alone), "");
  EXPECT_EQ(ties_of(alone), Words{"false"});
}

TEST(CompareRanking, WithoutTheTargetTheScoresTell) {
  Runs runs;
  add_seeds(runs, "a", {{}, {}}, 0.9);
  add_seeds(runs, "b", {{}, {}}, 0.8);
  EXPECT_EQ(verdict(ranked(runs, {})),
            "none reached 97 % within the budget; the nearest is a (90.00 %)");
  runs.back().second.final_accuracy = 0.9;
  EXPECT_EQ(verdict(ranked(runs, {})),
            "none reached 97 % within the budget; the nearest, a and b, tie: the ranges of their "
            "scores over 2 seeds overlap");
  runs = {{"a", ranked_run({}, 0.9, 1)}, {"b", ranked_run({}, 0.8, 1)}};
  EXPECT_EQ(
      verdict(ranked(runs, {})),
      "none reached 97 % within the budget; the nearest is a (90.00 %), which one seed cannot "
      "tell");
}

// Accuracy, loss where there is none, and times of models without numbers.
TEST(CompareRanking, AJobWithoutATargetHasTies) {
  Runs runs;
  for (const auto& [label, accuracy] :
       {std::pair{"a", 0.9}, std::pair{"a", 0.8}, std::pair{"b", 0.7}, std::pair{"b", 0.79}})
    runs.emplace_back(label, ranked_run({}, accuracy, 1));
  for (auto& [label, run] : runs) run.target_accuracy.reset();
  EXPECT_EQ(verdict(ranked(runs, {})),
            "a is first (85.00 %); next is b (74.50 %), by the median of 2 seeds");
  runs[3].second.final_accuracy = 0.8;
  EXPECT_EQ(verdict(ranked(runs, {})),
            "a and b tie: the ranges of their scores over 2 seeds overlap; the best median is "
            "a's: 85.00 %");
  for (auto& [label, run] : runs) run.final_accuracy.reset(), run.final_loss = run.time_s = 7;
  runs[0].second.final_loss = std::nan("");
  EXPECT_EQ(ties_of(ranked(runs, {})), (Words{"true", "true"}));
  for (auto& [label, run] : runs) run.final_loss.reset();
  EXPECT_THAT(verdict(ranked(runs, {})), HasSubstr("the ranges of their times over 2 seeds"));
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
  EXPECT_EQ(ties_of(groups), (Words{"true", "true"})) << "from 10 s on, from 50 s on";
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
  Runs runs = {{"broken", diverged}, {"broken", ranked_run(30, 0.97, 1)}};
  add_seeds(runs, "sound", {20, 40});
  const auto three = ranked(runs, {});
  EXPECT_EQ(ties_of(three), (Words{"false", "false"}));
  EXPECT_EQ(verdict(three),
            "sound is first: 97 % in 30.0 s with 10 MB between sites; all others diverged");
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
  run::CostTable prices{.wan_gb = 0.5, .node_hour = 3.6, .currency = "EUR"};
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
