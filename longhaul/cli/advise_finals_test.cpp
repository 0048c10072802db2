#include "longhaul/cli/advise_finals.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "longhaul/base/testing/result.h"

namespace longhaul::cli {
namespace {

using report::Difference;
using ::testing::HasSubstr;

FinalRun run_of(double after, double by, double bytes = 1e6) {
  return {.target = run::TargetTime{(after + by) / 2, after, by}, .wan_bytes = bytes, .time_s = by};
}

Finalist finalist(const std::string& label, std::vector<FinalRun> runs) {
  Finalist one{.candidate = {.label = label}};
  one.runs = std::move(runs);
  return one;
}

std::vector<Finalist> ranked_ones(std::vector<Finalist> all, const run::CostTable& prices = {}) {
  rank_finalists(all, prices, 4);
  return all;
}

run::Job job_with(const std::string& more) {
  auto doc = run::parse_document(
      "model = {kind = \"logistic\"}\ndata = {kind = \"synthetic\"}\n" +
          std::string(more.find("sync =") == more.npos ? "sync = {kind = \"bsp\"}\n" : "") + more,
      "job.toml");
  return *good(run::resolve_job(*good(std::move(doc))));
}

TEST(Finals, TheTargetIsNeverAll) {
  EXPECT_NEAR(higher_target(0.9), 0.91, 1e-12);
  EXPECT_NEAR(higher_target(0.99), 0.995, 1e-12);
}

TEST(Finals, TheQuickestOfEachFamilyAndThoseThatSendLeast) {
  std::vector<Trial> ranking;
  for (int i = 0; i < 8; ++i) {
    Trial trial{.candidate = {.label = "c" + std::to_string(i)}, .ran = true};
    trial.candidate.family = i == 1 ? "c0" : trial.candidate.label;
    trial.to_target = 10 + i;
    trial.summary.wan_bytes = i == 6 ? 1 : 100;
    ranking.push_back(trial);
  }
  ranking.push_back({.candidate = {.label = "late", .family = "late"}, .ran = true});
  std::vector<std::string> labels;
  for (const Candidate& one : finalists_of(ranking, 5)) labels.push_back(one.label);
  EXPECT_THAT(labels, ::testing::ElementsAre("c0", "c2", "c3", "c6", "c4"));
  EXPECT_EQ(finalists_of(ranking, 20).size(), 7u);
}

TEST(Finals, FitIntoTheBudgetSeedsBeforeFinalists) {
  const auto fit = [](double left) {
    const FinalsSize size = finals_that_fit({10, 20, 30}, 3, left);
    return std::pair(size.finalists, size.seeds);
  };
  EXPECT_EQ(fit(180), std::pair(std::size_t{3}, std::size_t{3}));
  EXPECT_EQ(fit(179), std::pair(std::size_t{2}, std::size_t{3}));
  EXPECT_EQ(fit(89), std::pair(std::size_t{2}, std::size_t{2}));
  EXPECT_EQ(fit(59), std::pair(std::size_t{0}, std::size_t{0}));  // one finalist proves nothing
  EXPECT_EQ(finals_that_fit({10}, 3, 25).seeds, 2u);
  EXPECT_EQ(finals_that_fit({}, 3, 25).finalists, 0u);
}

TEST(Finals, CopiesOfACandidateAreNoFinalists) {
  std::vector<Trial> ranking;
  for (const char* overlay : {"binary", "forest", "rack"}) {
    Trial trial{.candidate = {.label = overlay}, .ran = true};
    trial.candidate.sync = "adpsgd";
    trial.candidate.family = overlay;
    trial.to_target = 3;
    trial.summary.wan_bytes = 5;
    ranking.push_back(trial);
  }
  EXPECT_EQ(finalists_of(ranking, 5).size(), 1u);
}

TEST(Finals, ASeedThatMissesGivesTheRangeNoEnd) {
  const auto all = ranked_ones({finalist("a", {run_of(1, 2), run_of(1, 2), FinalRun{}}),
                                finalist("b", {run_of(8, 9), run_of(8, 9), run_of(8, 9)})});
  EXPECT_EQ(all[0].candidate.label, "a");
  EXPECT_EQ(all[1].from_first, Difference::tie);
  EXPECT_TRUE(to_json(all[0])["time_to_target_s"]["max"].is_null());
  EXPECT_EQ(to_json(all[0])["reached"], 2);
}

TEST(Finals, ACrossingLiesBetweenTwoScoresAndSoDoItsBytes) {
  const std::vector<report::ScorePoint> scores = {{.time_s = 1, .score = 0.5, .wan_bytes = 10},
                                                  {.time_s = 2},  // not scored
                                                  {.time_s = 3, .score = 0.8, .wan_bytes = 30},
                                                  {.time_s = 5, .score = 1, .wan_bytes = 50}};
  const auto found = crossing(scores, false, 0.9);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->time.at, 4, 1e-9);
  EXPECT_EQ(found->time.after, 3);
  EXPECT_NEAR(*found->wan_bytes, 40, 1e-9);
  EXPECT_FALSE(crossing(scores, false, 1.1));
  EXPECT_NEAR(crossing({{.time_s = 1, .score = 3}, {.time_s = 2, .score = 1}}, true, -2)->time.at,
              1.5, 1e-9);
}

TEST(Finals, FewerBitsAreBetterAndAreReportedAsTheyAre) {
  const auto missed = [](const std::string& label, double bits) {
    return finalist(label, std::vector<FinalRun>(2, {.score = bits, .lower_is_better = true}));
  };
  const auto all = ranked_ones({missed("worse", 3), missed("better", 2)});
  EXPECT_EQ(all[0].candidate.label, "better");
  EXPECT_EQ(all[1].from_first, Difference::clear);
  EXPECT_EQ(to_json(all[0])["seeds"][0]["score"], 2);
}

TEST(Finals, OverlappingRangesTieAndOthersDoNot) {
  const auto all = ranked_ones({finalist("slow", {run_of(20, 22), run_of(21, 23), run_of(22, 24)}),
                                finalist("b", {run_of(10, 12), run_of(12, 14), run_of(11, 13)}),
                                finalist("a", {run_of(9, 11), run_of(10, 12), run_of(11, 13)})});
  EXPECT_EQ(all[0].candidate.label, "a");
  EXPECT_EQ(all[1].from_first, Difference::tie);
  EXPECT_EQ(all[2].from_first, Difference::clear);
  const double sure = *confidence(all, 7);
  EXPECT_GT(sure, 0.5);
  EXPECT_LT(sure, 0.95);
  EXPECT_EQ(confidence(all, 7), confidence(all, 7));
}

TEST(Finals, FarApartIsSureAndOneSeedIsNoAnswer) {
  const auto sure = ranked_ones(
      {finalist("a", {run_of(1, 2), run_of(1, 2)}), finalist("b", {run_of(5, 6), run_of(5, 6)})});
  EXPECT_EQ(confidence(sure, 1), 1);
  const auto never = ranked_ones(
      {finalist("a", {run_of(1, 2), run_of(1, 2)}), finalist("b", {FinalRun{}, FinalRun{}})});
  EXPECT_EQ(confidence(never, 1), 1);
  EXPECT_FALSE(confidence(ranked_ones({finalist("a", {run_of(1, 2)})}), 1));
  EXPECT_FALSE(
      confidence(ranked_ones({finalist("a", {run_of(1, 2)}), finalist("b", {run_of(1, 2)})}), 1));
}

TEST(Finals, TheFrontHasWhatNoOtherBeats) {
  const run::Job job = job_with("site = [{name = \"a\"}, {name = \"b\"}]\n");
  const auto all = ranked_ones(
      {finalist("quick", {run_of(9, 11, 20e6)}), finalist("thrifty", {run_of(11, 13, 1e6)}),
       finalist("beaten", {run_of(12, 14, 2e6)}), finalist("never", {FinalRun{}})});
  const auto front = front_of(all, [&](const Candidate&) -> const run::Job& { return job; });
  ASSERT_EQ(front.size(), 2u);
  EXPECT_EQ(front[0].label, "quick");
  EXPECT_EQ(front[1].label, "thrifty");
  EXPECT_NE(front[0].does, "");
  EXPECT_EQ(to_json(front[1])["wan_bytes"], 1e6);
}

TEST(Finals, RisksAreNamed) {
  EXPECT_EQ(risks_of(job_with("sync = {kind = \"bsp\"}\nsite = [{name = \"a\"}]\n")), "");
  EXPECT_THAT(risks_of(job_with("sync = {kind = \"ssp\"}\nsite = [{name = \"a\"}]\n")),
              HasSubstr("stale updates (s clocks)"));
  EXPECT_THAT(risks_of(job_with("sync = {kind = \"dpsgd\"}\nsite = [{name = \"a\"}, "
                                "{name = \"b\"}]\n")),
              HasSubstr("no mean of all models"));
  EXPECT_THAT(risks_of(job_with("codec = {kind = \"int8\"}\nsite = [{name = \"a\"}]\n")),
              HasSubstr("int8 rounds values"));
}

TEST(Finals, BandwidthIsScaledWhereverItIsSaid) {
  run::Job job = job_with(
      "[wan]\nmodel = \"fair\"\nmbps = 10\nup_mbps = 40\n"
      "[[site]]\nname = \"a\"\ndown_mbps = 20\n[[site]]\nname = \"b\"\n"
      "[[wan.trace]]\nwhat = \"up\"\nsite = \"a\"\nat_s = [0, 5]\nvalues = [40, 20]\n");
  scale_bandwidth(job, 0.5);
  EXPECT_EQ(job.wan.rate_scale, 0.5);
  EXPECT_NEAR(*job.sites[0].up_mbps, 20, 1e-9);
  EXPECT_NEAR(*job.sites[1].up_mbps, 20, 1e-9);
  EXPECT_NEAR(*job.sites[0].down_mbps, 10, 1e-9);
  EXPECT_FALSE(job.sites[1].down_mbps);
  EXPECT_THAT(job.traces[0].values, ::testing::ElementsAre(20, 10));
}

TEST(Finals, TheSlowestWorkerIsSlowedDown) {
  run::Job job = job_with(
      "site = [{name = \"a\", step_ms = 5}, {name = \"b\", step_ms = 9}, "
      "{name = \"c\", step_ms = 99, roles = [\"server\"]}]\n");
  EXPECT_EQ(slow_down(job), "b");
  EXPECT_EQ(job.sites[1].step_ms, 18);
}

TEST(Finals, AChangeKeepsTheFirstOrNot) {
  const Change change{.what = "half the bandwidth", .times = {{"b", 1.0}, {"a", 2.0}}};
  EXPECT_TRUE(keeps_first(change, "b"));
  EXPECT_FALSE(keeps_first(change, "a"));
  EXPECT_FALSE(keeps_first({.what = "x", .times = {{"a", std::nullopt}}}, "a"));
}

}  // namespace
}  // namespace longhaul::cli
