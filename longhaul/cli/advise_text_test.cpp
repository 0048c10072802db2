#include "longhaul/cli/advise_text.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace longhaul::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Trial advised_trial(const std::string& sync, std::uint64_t rounds, double score) {
  Trial trial;
  trial.candidate.label = sync + "-ring";
  trial.candidate.sync = sync;
  trial.ran = true;
  trial.score = score;
  trial.scored = true;
  trial.limit_s = 4.2;
  trial.summary.target_accuracy = 0.9;
  trial.summary.rounds = rounds;
  trial.summary.time_s = 5;
  trial.summary.compute_utilisation = 0.5;
  return trial;
}

Advice advice_of(std::vector<Trial> ranking) {
  Advice advice{.name = "job", .folder = "runs/job-plan"};
  advice.search.ranking = std::move(ranking);
  advice.runs = 1;
  return advice;
}

TEST(AdviceText, WithoutAWinnerNothingIsWrittenAndRemediesAreNamed) {
  Advice advice = advice_of({advised_trial("fedavg", 7, 0.5)});
  advice.not_written = "best.toml";
  EXPECT_THAT(advice_text(advice, ""),
              AllOf(HasSubstr("job: nothing reached 90 %"), HasSubstr("fedavg-ring came nearest"),
                    HasSubstr("best.toml is not written"), HasSubstr("--budget-minutes"),
                    HasSubstr("a lower target"), HasSubstr("\n1 run in ")));
  advice.interrupted = true;
  EXPECT_THAT(advice_text(advice, ""), HasSubstr("job: Ctrl-C came before anything reached 90 %"));
  advice.search.ranking[0].to_target = 4;
  EXPECT_THAT(advice_text(advice, ""), Not(HasSubstr("not written")));
}

TEST(AdviceText, ATrialShorterThanTheFirstExchangeHasNoScore) {
  const std::string text =
      advice_text(advice_of({advised_trial("fedavg", 7, 0.5), advised_trial("bsp", 1, 0.25),
                             advised_trial("diloco", 0, 0)}),
                  "");
  EXPECT_THAT(text, HasSubstr("  bsp-ring: 25.00 % after 4.2 s, "));
  EXPECT_THAT(text, HasSubstr("learns less of a sample"));
  EXPECT_THAT(text, HasSubstr("\nThe usual choices, one seed each (whether one ties: "));
  EXPECT_THAT(text, HasSubstr("  diloco-ring: its first exchange takes longer than its trial of "
                              "4.2 s\n"));
}

TEST(AdviceText, WhatWasNeverScoredHasNoScoreAndNoCause) {
  Advice advice = advice_of({advised_trial("fedavg", 7, 0.5), advised_trial("bsp", 1, 0)});
  advice.search.ranking[1].scored = false;
  EXPECT_THAT(advice_text(advice, ""), HasSubstr("  bsp-ring: not scored after 4.2 s, 0 B between "
                                                 "sites\n"));
  EXPECT_TRUE(to_json(advice)["ranking"][1]["score"].is_null());
  EXPECT_EQ(to_json(advice)["ranking"][0]["score"], 0.5);
}

TEST(AdviceText, BeforeAnythingWasTrainedTheFastestAreNamed) {
  Advice advice = advice_of({});
  advice.interrupted = true;
  advice.predicted = 3;
  advice.not_written = "best.toml";
  advice.fastest.emplace_back();
  advice.fastest[0].label = "asp-hub";
  advice.fastest[0].samples_per_s = 1234;
  EXPECT_THAT(advice_text(advice, ""),
              AllOf(HasSubstr("job: Ctrl-C came before anything was trained; 3 combinations"),
                    HasSubstr("  asp-hub: 1234 samples a second\n"),
                    HasSubstr("best.toml is not written")));
}

// --- advise search

Candidate advised(const std::string& label) {
  return {.label = label, .sets = {}, .sync = label, .overlay = "ring", .codec = "fp32"};
}

// A world in which each candidate reaches the target after its own time, and scores by how far it
// has come; counts the virtual seconds that were run.
struct TrialWorld {
  std::map<std::string, double> reaches_at;
  double ran_s = 0;
  std::size_t runs = 0, most_runs = 10000;

  std::vector<Trial> run(const std::vector<Candidate>& candidates, double limit_s) {
    std::vector<Trial> trials;
    for (const Candidate& candidate : candidates) {
      Trial trial{.candidate = candidate, .ran = runs < most_runs, .to_target = {}};
      if (trial.ran) {
        ++runs;
        const double needs = reaches_at.at(candidate.label);
        if (needs <= limit_s) trial.to_target = needs;
        trial.score = 1 - std::exp(-limit_s / needs);
        trial.limit_s = limit_s;
        ran_s += std::min(limit_s, needs);
      }
      trials.push_back(trial);
    }
    return trials;
  }
  SearchHooks hooks() {
    return {.run = [this](const auto& candidates, double limit) { return run(candidates, limit); },
            .neighbours = [](const Candidate&) { return std::vector<Candidate>{}; },
            .is_over = [this] { return runs >= most_runs; }};
  }
};

TEST(AdviseSearch, FindsTheBestForLessThanRunningAll) {
  TrialWorld world;
  std::vector<Candidate> candidates;
  double all = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string label = "c" + std::to_string(i);
    world.reaches_at[label] = 50 + 20 * ((i * 7) % 30);
    all += world.reaches_at[label];
    candidates.push_back(advised(label));
  }
  const SearchResult result = successive_halving(candidates, 5, world.hooks());
  ASSERT_FALSE(result.ranking.empty());
  EXPECT_EQ(result.ranking.front().candidate.label, "c0");
  EXPECT_EQ(result.ranking.front().to_target, 50);
  EXPECT_TRUE(result.complete);
  EXPECT_LT(world.ran_s, all / 5);
  EXPECT_EQ(result.ranking.size(), 30u);
}

TEST(AdviseSearch, TriesTheNeighboursOfThoseThatDoWell) {
  TrialWorld world;
  world.reaches_at = {{"a", 100}, {"b", 400}, {"a-steps=20", 60}};
  SearchHooks hooks = world.hooks();
  hooks.neighbours = [](const Candidate& near) {
    return near.label == "a" ? std::vector{advised("a-steps=20"), advised("b")}
                             : std::vector<Candidate>{};
  };
  const SearchResult result = successive_halving({advised("a"), advised("b")}, 10, hooks);
  EXPECT_EQ(result.ranking.front().candidate.label, "a-steps=20");
  EXPECT_EQ(result.ranking.size(), 3u);
  EXPECT_TRUE(result.complete);
}

TEST(AdviseSearch, EndsWhenTheBudgetIsOver) {
  TrialWorld world;
  world.reaches_at = {{"a", 1e6}, {"b", 2e6}};
  world.most_runs = 3;
  const SearchResult result = successive_halving({advised("a"), advised("b")}, 10, world.hooks());
  EXPECT_EQ(result.ranking.front().candidate.label, "a");
  EXPECT_FALSE(result.ranking.front().to_target);
  EXPECT_FALSE(result.complete);
}

TEST(AdviseSearch, ATargetBeyondAllStagesEnds) {
  TrialWorld world;
  world.reaches_at = {{"a", 1e30}};
  const SearchResult result = successive_halving({advised("a")}, 1, world.hooks());
  EXPECT_FALSE(result.complete);
  EXPECT_LE(result.stages, 20u);
}

}  // namespace
}  // namespace longhaul::cli
