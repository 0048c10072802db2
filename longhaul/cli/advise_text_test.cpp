#include "longhaul/cli/advise_text.h"

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
  Advice advice;
  advice.name = "job";
  advice.folder = "runs/job-plan";
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

}  // namespace
}  // namespace longhaul::cli
