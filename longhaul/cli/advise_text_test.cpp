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
  Advice advice{.name = "job", .folder = "runs/job-plan", .target = "90 %"};
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
                    HasSubstr("an easier target"), HasSubstr("\n1 run in ")));
  advice.interrupted = true;
  EXPECT_THAT(advice_text(advice, ""), HasSubstr("job: Ctrl-C came before anything reached 90 %"));
  advice.search.ranking[0].to_target = 4;
  EXPECT_THAT(advice_text(advice, ""), Not(HasSubstr("not written")));
}

TEST(AdviceText, WhatIsNotTriedDependsOnWhoSaysTheRate) {
  Advice advice = advice_of({advised_trial("fedavg", 7, 0.5)});
  EXPECT_THAT(advice_text(advice, ""),
              HasSubstr("  other keys than optimizer.rate, outer.rate and sync.steps stay as"));
  advice.tunes_rates = false;
  EXPECT_THAT(
      advice_text(advice, ""),
      HasSubstr("  the learning rate, which the loop sets without site.rate, and other keys "
                "than outer.rate and sync.steps stay as"));
}

TEST(AdviceText, WhatDidNotRunIsNamedWithItsReason) {
  Trial failed{.candidate = {.label = "bsp-ring"}, .why = "train() raised ValueError"};
  Advice advice = advice_of({advised_trial("fedavg", 7, 0.5), failed});
  advice.search.ranking.push_back({.candidate = {.label = "asp-hub"}});
  advice.refused = {{"p3", "asks for a backward part"}};
  advice.no_budget = {"2 of 5 trials of stage 3"};
  EXPECT_THAT(advice_text(advice, ""),
              AllOf(HasSubstr("\nFailed\n  bsp-ring: train() raised ValueError\n\n"),
                    HasSubstr("  p3: asks for a backward part\n"),
                    HasSubstr("  2 of 5 trials of stage 3: the budget is too small\n")));
  EXPECT_EQ(to_json(advice)["refused"]["p3"], "asks for a backward part");
  EXPECT_EQ(to_json(advice)["no_budget"][0], "2 of 5 trials of stage 3");
}

TEST(AdviceText, TextModelsHaveBitsPerByte) {
  Advice advice = advice_of({advised_trial("fedavg", 7, -2.5)});
  advice.bits = true;
  advice.search.ranking[0].summary.target_bits_per_byte = 2;
  EXPECT_EQ(to_json(advice)["measure"], "bits_per_byte");
  EXPECT_EQ(to_json(advice)["ranking"][0]["score"], 2.5);
  EXPECT_THAT(advice_text(advice, ""), HasSubstr("2.5000 bits per byte after"));
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

// Two finalists that tie, of which the second sends less.
Advice confirmed_advice() {
  Advice advice = advice_of({advised_trial("fedavg", 7, 0.5), advised_trial("bsp", 9, 0.5)});
  for (Trial& trial : advice.search.ranking) trial.to_target = 4;
  for (const Trial& trial : advice.search.ranking) {
    Finalist one{.candidate = trial.candidate};
    const bool first = advice.finalists.empty();
    for (const double at : {4.0, 5.0, 6.0})
      one.runs.push_back({.target = run::TargetTime{first ? at : at + 0.5, at - 1, at + 1},
                          .wan_bytes = first ? 2e6 : 1e6,
                          .time_s = 9});
    advice.finalists.push_back(one);
  }
  rank_finalists(advice.finalists, {}, 2);
  return advice;
}

TEST(AdviceText, TheFirstFinalistIsRecommendedWithItsRangeAndItsTies) {
  Advice advice = confirmed_advice();
  advice.confidence = 0.625;
  EXPECT_EQ(advice.best().label, "fedavg-ring");
  EXPECT_THAT(
      advice_text(advice, ""),
      AllOf(HasSubstr("job: fedavg-ring\n  90 % in 5.0 s (4.0 s to 6.0 s over 3 seeds), 2 MB"),
            HasSubstr("it ties with bsp-ring: their ranges overlap"),
            HasSubstr("first in 62 % of resamplings")));
  const auto json = to_json(advice);
  EXPECT_EQ(json["recommended"], "fedavg-ring");
  EXPECT_EQ(json["finalists"][1]["ties_with_first"], true);
  EXPECT_EQ(json["finalists"][0]["seeds"][2]["between_s"][1], 7.0);
}

TEST(AdviceText, WhatOtherSeedsDoNotConfirmIsNotRecommended) {
  Advice advice = confirmed_advice();
  for (Finalist& one : advice.finalists)
    for (std::size_t i = 1; i < one.runs.size(); ++i) one.runs[i].target.reset();
  rank_finalists(advice.finalists, {}, 2);
  EXPECT_FALSE(advice.found());
  EXPECT_THAT(advice_text(advice, ""),
              AllOf(HasSubstr("job: nothing reached 90 %"),
                    HasSubstr(advice.best().label + " came nearest"),
                    HasSubstr("on other seeds it reached that in 1 of 3 runs")));
  EXPECT_TRUE(to_json(advice)["recommended"].is_null());
}

TEST(AdviceText, TheFrontSaysWhatIsDoneAndRisked) {
  Advice advice = confirmed_advice();
  advice.front = {{.label = "a", .time_s = 5, .wan_bytes = 2e6, .does = "averages"},
                  {.label = "b", .time_s = 6, .wan_bytes = 1e6, .cost = 3, .risks = "stale"}};
  EXPECT_THAT(advice_text(advice, ""),
              AllOf(HasSubstr("  a: 5.0 s, 2 MB between sites\n    averages\n  b: "),
                    HasSubstr("1 MB between sites, price 3\n"), HasSubstr("    risks: stale\n")));
  EXPECT_FALSE(to_json(advice).contains("currency"));
  advice.currency = "EUR";
  EXPECT_THAT(advice_text(advice, ""), HasSubstr(", price 3 EUR\n"));
  EXPECT_EQ(to_json(advice)["currency"], "EUR");
}

TEST(AdviceText, ChangesNameAnotherFirstAndWhatTheFirstDoes) {
  Advice advice = confirmed_advice();
  advice.changes = {{"half the bandwidth", {{"bsp-ring", 8.0}, {"fedavg-ring", 9.0}}},
                    {"twice the bandwidth", {{"fedavg-ring", 3.0}, {"bsp-ring", 4.0}}},
                    {"the target a point higher", {{"fedavg-ring", {}}, {"bsp-ring", {}}}}};
  EXPECT_THAT(advice_text(advice, ""),
              AllOf(HasSubstr("  half the bandwidth: bsp-ring, 8.0 s (fedavg-ring 9.0 s)\n"),
                    HasSubstr("  twice the bandwidth: the same, 3.0 s\n"),
                    HasSubstr("  the target a point higher: none of 2 gets there in time\n")));
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
