#include "longhaul/cli/advise_search.h"

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace longhaul::cli {
namespace {

Candidate advised(const std::string& label) {
  return {.label = label,
          .sync = label.substr(0, label.find('-')),
          .overlay = "ring",
          .codec = "fp32",
          .family = label.substr(0, label.find("-rate"))};
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
        trial.scored = true;
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
    const std::string label = fmt::format("s{}-c{}", i % 6, i);
    world.reaches_at[label] = 50 + 20 * ((i * 7) % 30);
    all += world.reaches_at[label];
    candidates.push_back(advised(label));
  }
  const SearchResult result = successive_halving(candidates, 5, world.hooks());
  ASSERT_FALSE(result.ranking.empty());
  EXPECT_EQ(result.ranking.front().candidate.label, "s0-c0");
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

// Eight strategies have three rates each. The better strategies stay, with their best rate.
TEST(AdviseSearch, GoesOnWithTheBestRateOfEachFamily) {
  TrialWorld world;
  std::vector<Candidate> candidates;
  for (int i = 0; i < 8; ++i)
    for (const int rate : {1, 4, 16}) {
      const std::string label = "c" + std::to_string(i) + "-rate=" + std::to_string(rate);
      world.reaches_at[label] = (100 + 10 * i) * (rate == 4 ? 1 : 3);
      candidates.push_back(advised(label));
    }
  std::vector<std::size_t> sizes;
  SearchHooks hooks = world.hooks();
  hooks.run = [&](const auto& all, double limit_s) {
    sizes.push_back(all.size());
    return world.run(all, limit_s);
  };
  const SearchResult result = successive_halving(candidates, 10, hooks);
  EXPECT_EQ(result.ranking.front().candidate.label, "c0-rate=4");
  ASSERT_GE(sizes.size(), 3u);
  EXPECT_EQ(sizes[0], 24u);
  EXPECT_EQ(sizes[1], 8u);  // each strategy once
  EXPECT_LE(sizes[2], 8u);
}

// A strategy that is last in short trials, because it waits for its first exchange, is the first to
// reach the target.
TEST(AdviseSearch, KeepsEveryStrategyUntilOneReachesTheTarget) {
  TrialWorld world;
  std::vector<Candidate> candidates = {advised("late")};
  world.reaches_at["late"] = 60;
  for (int i = 0; i < 20; ++i) {
    candidates.push_back(advised("c" + std::to_string(i)));
    world.reaches_at[candidates.back().label] = 200 + i;
  }
  SearchHooks hooks = world.hooks();
  hooks.run = [&](const auto& all, double limit_s) {
    std::vector<Trial> trials = world.run(all, limit_s);
    for (Trial& trial : trials)
      if (trial.candidate.label == "late" && limit_s < 60) trial.scored = false;
    return trials;
  };
  const SearchResult result = successive_halving(candidates, 10, hooks);
  EXPECT_EQ(result.ranking.front().candidate.label, "late");
}

// The first strategy's families take all places of the ranking's head.
TEST(AdviseSearch, TriesTheNeighboursOfOtherStrategiesToo) {
  TrialWorld world;
  world.reaches_at = {{"other", 300}, {"other-int8", 30}};
  std::vector<Candidate> candidates = {advised("other")};
  for (int i = 0; i < 8; ++i) {
    candidates.push_back(advised("first-" + std::to_string(i)));
    world.reaches_at[candidates.back().label] = 200 + i;
  }
  SearchHooks hooks = world.hooks();
  hooks.neighbours = [](const Candidate& near) {
    return near.label == "other" ? std::vector{advised("other-int8")} : std::vector<Candidate>{};
  };
  const SearchResult result = successive_halving(candidates, 10, hooks);
  EXPECT_EQ(result.ranking.front().candidate.label, "other-int8");
}

// A rate that a short trial put behind is tried again beside one that has won for longer.
TEST(AdviseSearch, ARateThatWasPutBehindComesBack) {
  std::map<std::string, std::size_t> tried;
  const SearchHooks hooks = {
      .run =
          [&](const std::vector<Candidate>& all, double limit_s) {
            std::vector<Trial> trials;
            for (const Candidate& one : all) {
              ++tried[one.label];
              const bool slow = one.label == "a-rate=1";  // begins slowly and gets far
              const double needs = slow ? 100 : one.label == "a-rate=2" ? 200 : 400;
              trials.push_back({.candidate = one,
                                .ran = true,
                                .to_target = needs <= limit_s ? std::optional(needs) : std::nullopt,
                                .score = slow && limit_s < 50 ? 0 : limit_s / needs,
                                .scored = true,
                                .limit_s = limit_s});
            }
            return trials;
          },
      .neighbours =
          [](const Candidate& near) {
            return near.label == "a-rate=4" ? std::vector{advised("a-rate=2"), advised("a-rate=8")}
                                            : std::vector{advised("a-rate=1"), advised("a-rate=4")};
          },
      .is_over = [] { return false; }};
  const SearchResult result =
      successive_halving({advised("a-rate=1"), advised("a-rate=4")}, 10, hooks);
  EXPECT_EQ(result.ranking.front().candidate.label, "a-rate=1");
  EXPECT_GE(tried["a-rate=1"], 2u);
}

TEST(AdviseSearch, NoScoreIsWorseThanAnyAndNotZero) {
  Trial bad{.candidate = advised("a"), .ran = true, .to_target = {}, .score = -3, .scored = true};
  Trial none{.candidate = advised("b"), .ran = true, .to_target = {}};
  EXPECT_TRUE(is_better_trial(bad, none));
  EXPECT_FALSE(is_better_trial(none, bad));
}

TEST(AdviseSearch, TheLongestTrialSaysHowFastItsFamilyIs) {
  FamilySpeeds speeds;
  EXPECT_EQ(speeds.of("a"), 0);
  speeds.note("a", 100, 1);  // all of it before the first exchange
  speeds.note("a", 200, 10);
  speeds.note("a", 90, 1);
  speeds.note("b", 3, 1);
  EXPECT_EQ(speeds.of("a"), 20);
  speeds.forget("a");
  EXPECT_EQ(speeds.of("a"), 0);
  EXPECT_EQ(speeds.of("b"), 3);
}

TEST(AdviseSearch, TheFirstToKeepAreTheProbeAndThoseWithTheJobsOwnRate) {
  const std::vector<Candidate> all = {advised("fast-rate=2"), advised("fast"),
                                      advised("probe-rate=2"), advised("probe"), advised("slow")};
  const auto kept = [&](std::size_t most) {
    std::vector<Candidate> some = all;
    keep_first(some, all[2], most);
    std::vector<std::string> labels;
    for (const Candidate& one : some) labels.push_back(one.label);
    return labels;
  };
  EXPECT_EQ(kept(1), (std::vector<std::string>{"probe-rate=2"}));
  EXPECT_EQ(kept(3), (std::vector<std::string>{"probe-rate=2", "fast", "probe"}));
  EXPECT_EQ(kept(9),
            (std::vector<std::string>{"probe-rate=2", "fast", "probe", "slow", "fast-rate=2"}));
}

// The earlier score of "a" keeps no place for it, and it does not run again.
TEST(AdviseSearch, AFailureInALaterStageReplacesTheEarlierTrial) {
  TrialWorld world;
  world.reaches_at = {{"a", 50}, {"b", 100}};
  SearchHooks hooks = world.hooks();
  std::size_t failures = 0;
  hooks.run = [&](const auto& candidates, double limit) {
    std::vector<Trial> trials = world.run(candidates, limit);
    for (Trial& trial : trials)
      if (trial.candidate.label == "a" && limit > 10) {
        trial = {
            .candidate = trial.candidate, .why = "diverged", .to_target = {}, .limit_s = limit};
        ++failures;
      }
    return trials;
  };
  const SearchResult result = successive_halving({advised("a"), advised("b")}, 10, hooks);
  EXPECT_EQ(failures, 1u);
  EXPECT_EQ(result.ranking.front().candidate.label, "b");
  EXPECT_EQ(result.ranking.back().why, "diverged");
  EXPECT_TRUE(result.complete);
}

TEST(AdviseSearch, IsNotCompleteIfATrialLackedBudget) {
  TrialWorld world;
  world.reaches_at = {{"a", 5}, {"b", 20}};
  world.most_runs = 1;
  const SearchResult result = successive_halving({advised("a"), advised("b")}, 10, world.hooks());
  EXPECT_TRUE(result.ranking.front().to_target);
  EXPECT_FALSE(result.complete);
}

// The others get no more time than a quarter above it, and it does not run again.
TEST(AdviseSearch, ATrialBeforeTheSearchThatReachedTheTargetCounts) {
  TrialWorld world;
  world.reaches_at = {{"a", 40}, {"b", 45}, {"c", 100}};
  const Trial known{.candidate = advised("a"), .ran = true, .to_target = 40, .limit_s = 60};
  const SearchResult result =
      successive_halving({advised("a"), advised("b"), advised("c")}, 10, world.hooks(), known);
  EXPECT_EQ(result.ranking.front().candidate.label, "a");
  EXPECT_EQ(result.ranking[1].to_target, 45);
  EXPECT_FALSE(result.ranking[2].to_target);
  EXPECT_TRUE(result.complete);
  EXPECT_LE(world.ran_s, 2 * 10 + 45 + 50);
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
