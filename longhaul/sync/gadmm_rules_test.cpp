// What ends a run of gadmm, its other methods and chains; and other data than those of ten workers.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/gadmm/gradient_step.h"
#include "longhaul/sync/testing/body_fat.h"
#include "longhaul/sync/testing/convex_job.h"

namespace longhaul::sync {
namespace {

using longhaul::testing::kStride;
using testing::ConvexJob;
using testing::parabola;
using testing::QuadraticForm;
using testing::TestJob;
using RuleForms = std::vector<QuadraticForm>;

RuleForms ten_workers() {
  RuleForms forms;
  for (std::uint32_t n = 0; n < testing::kBodyFatWorkers; ++n)
    forms.push_back(testing::body_fat(n));
  return forms;
}

std::vector<Setting> words(std::vector<std::pair<std::string, std::string>> some,
                           std::vector<Setting> more = {}) {
  for (auto& [key, value] : some) more.push_back({key, {std::move(value)}});
  return more;
}

// Scores as a host does: the loss over all data.
TestJob::Config scored(TestJob::Config config, const RuleForms& forms) {
  config.score = [whole = testing::sum_of(forms)](std::span<const float> model) {
    const std::vector<double> x(model.begin(), model.end());
    return Evaluation{.loss = whole.value(x), .samples = 1};
  };
  return config;
}

struct RuleRun {
  std::optional<Round> holds = {};  // the iteration, from 1, in which the rule held first
  Round rounds = 0;                 // of the whole run
};
RuleRun run_until(const std::string& rule, double rho, Round most, std::vector<Setting> more = {},
                  const RuleForms& forms = ten_workers(), double least = testing::kBodyFatLeast) {
  more.push_back({"rho", {rho}});
  more.push_back({"least", {least}});
  ConvexJob chain(
      forms,
      scored(ConvexJob::config("gadmm", forms, words({{"stop_when", rule}}, more), most), forms));
  chain.job.run(100000000);
  expect_no_errors(chain.job);
  RuleRun run{.rounds = chain.job.node(0).strategy().rounds_done()};
  for (Rank n = 0; n < forms.size(); ++n) {
    EXPECT_EQ(chain.job.finished[n], 1);
    EXPECT_EQ(chain.job.node(n).strategy().rounds_done(), run.rounds);
    EXPECT_EQ(chain.job.params(n), chain.job.params(0));
  }
  const auto& held = chain.job.records[{0, "rule_holds"}];
  if (!held.empty()) run.holds = held.front().first + 1;
  return run;
}

// gadmm_test.cpp, invariant 4: the published rule ends the run, at all workers in the same
// iteration.
TEST(GadmmRules, ThePublishedRuleEndsARun) {
  // In the tenth iteration the losses are 0.5599198 from the least.
  constexpr bool kGate = longhaul::testing::kGate;
  const RuleRun run = run_until("published", 3, 1000, {{"tolerance", {kGate ? .565 : 1e-4}}});
  EXPECT_EQ(run.holds, kGate ? 10u : 160u);
  EXPECT_EQ(run.rounds, (kGate ? 10u : 160u) + 2 * 10 + 2);
}

// The iterations are those of the formulas, computed elsewhere.
TEST(GadmmRules, EachRuleEndsARunOfFiveParabolas) {
  const RuleForms five = {parabola(1), parabola(-2), parabola(6), parabola(3), parabola(9)};
  const QuadraticForm whole = testing::sum_of(five);
  const double least = whole.value(whole.argmin(0, std::vector<double>(1)));
  const auto run = [&](const char* rule, Round most, std::vector<Setting> more = {}) {
    return run_until(rule, 3, most, std::move(more), five, least);
  };
  const RuleRun published = run("published", 100), every = run("every_model", 100);
  EXPECT_EQ(published.holds, 20u);
  EXPECT_EQ(published.rounds, 20u + 2 * 5 + 2);
  EXPECT_EQ(every.holds, 19u);
  EXPECT_EQ(every.rounds, 19u + 12);
  const std::vector<Setting> hold = {{"hold", {std::int64_t(10)}}};
  EXPECT_EQ(run("settled", 25, hold).holds, std::nullopt) << "20 is a change of sign";
  const RuleRun settled = run("settled", 100, hold);
  EXPECT_EQ(settled.holds, 29u);
  EXPECT_EQ(settled.rounds, 29u + 9 + 12);
  EXPECT_EQ(run_until("published", 1, 100, words({{"chain", "star"}}), five, least).holds, 19u);
}

// Table 1 (gadmm_test.cpp, invariant 8), until each rule ends the run.
TEST(GadmmRulesNightly, Table1) {
  for (const auto& [rho, published, every_model, settled] : {std::tuple{1., 2564u, 1293u, 2564u},
                                                             {3., 160u, 458u, 885u},
                                                             {5., 314u, 428u, 603u},
                                                             {7., 544u, 587u, 544u},
                                                             {20., 1674u, 1679u, 1674u}}) {
    EXPECT_EQ(run_until("published", rho, 3000).holds, published) << rho;
    EXPECT_EQ(run_until("every_model", rho, 3000).holds, every_model) << rho;
    EXPECT_EQ(run_until("settled", rho, 3000).holds, settled) << rho;
  }
}

// Whoever is quick or slow: the rule holds, and the run ends, in the same iterations.
TEST(GadmmRules, NoTimingChangesTheEnd) {
  const RuleForms forms = {parabola(1), parabola(2), parabola(6), parabola(0)};
  std::set<Round> ends, holds;
  std::size_t number = 0;
  for (const int slow : {0, 3, 40}) {
    for (const Rank who : {0u, 2u, 3u}) {
      if (longhaul::testing::kGate && number++ % 2 != 0) continue;
      TestJob::Config config = ConvexJob::config(
          "gadmm", forms, words({{"stop_when", "published"}}, {{"rho", {1.}}, {"least", {10.375}}}),
          500);
      config.takes = [&](Rank rank) { return rank == who ? slow : 0; };
      ConvexJob chain(forms, config);
      chain.job.run(1000000);
      for (Rank n = 0; n < 4; ++n) ends.insert(chain.job.node(n).strategy().rounds_done());
      holds.insert(chain.job.records[{0, "rule_holds"}].at(0).first);
    }
  }
  EXPECT_EQ(ends.size(), 1u);
  EXPECT_EQ(holds.size(), 1u);
  EXPECT_EQ(*ends.begin(), *holds.begin() + 1 + 10);
}

// The judge (rank 0) too may be lost: who follows judges from there on. With a least that nobody
// comes to the run ends by [stop].
TEST(GadmmRules, ALossAtAnyMomentEndsTheRunAtAll) {
  const RuleForms forms = {parabola(1), parabola(1), parabola(1), parabola(1)};
  constexpr bool kGate = longhaul::testing::kGate;
  for (const double least : {0., -5.}) {
    for (std::uint64_t moment = kGate && least < 0 ? 1 + kStride : 1; moment < 300;
         moment += (kGate ? 2 : 1) * kStride) {
      const Rank dead = Rank(moment % 2 == 0 ? 0 : moment / 2 % 4);
      ConvexJob chain("gadmm", forms,
                      words({{"stop_when", "published"}}, {{"rho", {1.}}, {"least", {least}}}), 60);
      chain.job.crash_at(moment, dead);
      chain.job.run(1000000);
      std::set<Round> ends;
      for (const Rank n : chain.job.live()) {
        EXPECT_EQ(chain.job.finished[n], 1) << "moment " << moment;
        ends.insert(chain.job.node(n).strategy().rounds_done());
      }
      EXPECT_EQ(ends.size(), 1u) << "moment " << moment;
      expect_no_errors(chain.job);
      if (least == 0) EXPECT_LT(*ends.begin(), 60u);
    }
  }
}

TEST(GadmmRules, SavingChangesNothing) {
  std::size_t number = 0;
  for (const char* rule : {"published", "every_model"}) {
    for (const char* method : {"admm", "dual_averaging"}) {
      if (longhaul::testing::kGate && number++ % 3 != 0) continue;
      TestJob::Config config{.sync = "gadmm",
                             .settings = words({{"stop_when", rule}, {"method", method}}),
                             .learners = testing::learners(4, {.samples = 2})};
      EXPECT_EQ(testing::changed_by_saving(config), "") << rule << " " << method;
    }
  }
}

TEST(GadmmRules, ALossThatIsNotKnownIsRefused) {
  for (const auto& [send, method, is_known] :
       {std::tuple{"fp64", "admm", true}, {"codec", "admm", false}, {"codec", "dgd", true}}) {
    const Status status = testing::status_of(
        "gadmm", words({{"stop_when", "published"}, {"send", send}, {"method", method}}));
    ASSERT_EQ(bool(status), is_known) << send << " " << method;
    if (!status) EXPECT_NE(status.error().what.find("every_model"), std::string::npos);
  }
}

// --- other chains and methods -------------------------------------------------------------------

// Baseline admm_star: the hub is the last worker, with data of its own.
TEST(GadmmRulesNightly, AStarTakesAsManyIterationsAsPublished) {
  EXPECT_EQ(run_until("published", 3, 400, words({{"chain", "star"}})).holds, 269u);
  EXPECT_EQ(run_until("published", 1, 500, words({{"chain", "star"}})).holds, 420u);
}

TEST(GadmmRules, AStarWithoutItsHubFindsAnother) {
  const RuleForms forms = {parabola(1), parabola(-2), parabola(6), parabola(9)};
  ConvexJob star("gadmm", forms, words({{"chain", "star"}}, {{"rho", {1.}}}), 120);
  star.job.crash_at(100, 3);
  star.job.run(1000000);
  for (Rank n = 0; n < 3; ++n) {
    EXPECT_EQ(star.job.finished[n], 1);
    EXPECT_NEAR(star.solved(n).back().solution[0], 5. / 3, 1e-6);
  }
  EXPECT_TRUE(star.job.errors.empty()) << star.job.errors.front();
}

// A step that is too long: the figures of a stopping rule grow first, then the models.
TEST(GadmmRules, ATooLongStepDiverges) {
  const RuleForms forms = {parabola(1), parabola(2), parabola(-4)};
  for (const char* method : {"dgd", "dual_averaging"})
    for (const char* when : {"rounds", "published", "settled"}) {
      SCOPED_TRACE(std::string(method) + ", " + when);
      auto job = TestJob::ended(
          ConvexJob::config("gadmm", forms,
                            words({{"method", method}, {"stop_when", when}}, {{"step", {1e12}}}),
                            2000),
          1000000);
      ASSERT_FALSE(job.failures.empty());
      for (const auto& [rank, why] : job.failures)
        EXPECT_TRUE(why.find("lower [sync] step") != std::string::npos ||
                    why.find("diverged") != std::string::npos)
            << why;
      EXPECT_TRUE(job.errors.empty()) << job.errors.front();
    }
}

TEST(GadmmRules, MetropolisWeightsAddUpToOne) {
  const std::vector<double> own = {6}, left = {0}, right = {3};
  // Degrees 1 and 2 beside a worker of two neighbours: a third each.
  EXPECT_NEAR(gadmm::metropolis_mean(own, {{left, 1}, {right, 2}})[0], 3, 1e-14);
  EXPECT_EQ(gadmm::metropolis_mean(own, {})[0], 6);
  EXPECT_EQ(gadmm::averaged_point(own, left, 2, 0)[0], 6);
  EXPECT_EQ(gadmm::averaged_point(own, right, 2, 4)[0], 6 - 3);
}

// gadmm_test.cpp, invariant 11: alone it is gradient descent.
TEST(GadmmRules, DgdOfOneWorkerIsGradientDescent) {
  const QuadraticForm whole = testing::sum_of(ten_workers());
  auto alone = ConvexJob::ended(
      "gadmm", {whole}, words({{"method", "dgd"}}, {{"step", {1 / testing::kBodyFatSmoothness}}}),
      101, 1000000);
  const auto& objective = alone.job.records[{0, "objective"}];
  ASSERT_EQ(objective.size(), 101u);
  for (const auto& [k, value] :
       std::map<std::size_t, double>{{1, 17.9499}, {2, 14.3635}, {10, 3.42203}, {100, .829430}})
    EXPECT_NEAR(objective.at(k).second - testing::kBodyFatLeast, value, 1e-5 * value) << k;
}

// Of the sum of each worker's loss at its own model, after `rounds` iterations.
double error_after(Round rounds, const std::string& method, double step) {
  auto chain =
      ConvexJob::ended("gadmm", ten_workers(), words({{"method", method}}, {{"step", {step}}}),
                       rounds + 1, 1000000000);
  EXPECT_TRUE(chain.job.failures.empty()) << chain.job.failures.begin()->second;
  double sum = -testing::kBodyFatLeast;
  for (Rank n = 0; n < 10; ++n) sum += chain.job.records[{n, "objective"}].at(rounds).second;
  return std::abs(sum);
}

// Baselines dgd and dual_averaging: they come to a neighbourhood of the optimum.
TEST(GadmmRulesNightly, MethodsWithoutSolvesStayAway) {
  constexpr double kStep = 1 / testing::kBodyFatSmoothness;
  EXPECT_NEAR(error_after(40000, "dgd", kStep), .0290, 1e-4);
  EXPECT_NEAR(error_after(40000, "dgd", kStep / 10), .349, 1e-3);
  EXPECT_NEAR(error_after(40000, "dgd", kStep / 100), 1.17, 1e-2);
  EXPECT_NEAR(error_after(40000, "dual_averaging", kStep), 2.48, 1e-2);
}

// Alike losses: the mean of all models moves as gradient descent does, and all come together.
TEST(GadmmRules, MethodsWithoutSolvesMoveTheMeanRight) {
  constexpr bool kGate = longhaul::testing::kGate;
  const RuleForms forms = {parabola(1), parabola(2), parabola(6), parabola(-1)};
  for (const char* method : {"dgd", "dual_averaging"}) {
    auto chain = ConvexJob::ended("gadmm", forms, words({{"method", method}}, {{"step", {.2}}}),
                                  kGate ? 150 : 600, 1000000);
    EXPECT_NEAR(chain.job.params(0)[0], 2, kGate ? .5 : .3) << method;
    EXPECT_TRUE(chain.job.errors.empty()) << chain.job.errors.front();
  }
}

TEST(GadmmRules, MethodsWithoutSolvesSurviveALossAtAnyMoment) {
  const RuleForms forms = {parabola(1), parabola(-2), parabola(6), parabola(3)};
  for (const char* method : {"dgd", "dual_averaging"}) {
    for (std::uint64_t moment = 1; moment < 250; moment += kStride) {
      const Rank dead = Rank(moment % 4);
      ConvexJob chain("gadmm", forms, words({{"method", method}}), 30);
      chain.job.crash_at(moment, dead);
      chain.job.run(1000000);
      for (const Rank n : chain.job.live())
        EXPECT_EQ(chain.job.finished[n], 1) << method << " at " << moment;
      EXPECT_TRUE(chain.job.errors.empty()) << chain.job.errors.front();
    }
  }
}

// --- other numbers of workers -------------------------------------------------------------------

// The rows of bodyfat.csv, floor(252 / n) for each of n workers.
RuleForms body_fat_of(const char* path, std::size_t n) {
  std::ifstream file(path);
  std::vector<std::vector<double>> rows;
  std::string line;
  for (std::getline(file, line); std::getline(file, line);) {
    std::istringstream text(line);
    rows.emplace_back();
    for (std::string cell; std::getline(text, cell, ',');) rows.back().push_back(std::stod(cell));
  }
  EXPECT_EQ(rows.size(), 252u) << path;
  RuleForms forms;
  for (std::size_t k = 0, each = rows.size() / n; k < n; ++k)
    forms.push_back(longhaul::testing::least_squares(std::span(rows).subspan(k * each, each)));
  return forms;
}

// The rows are no part of the source tree: there are cases where LONGHAUL_BODY_FAT names the file.
struct Table2 {
  std::size_t workers = 0;
  Round iterations = 0;
};
std::vector<Table2> table_2() {
  if (!std::getenv("LONGHAUL_BODY_FAT")) return {};
  return {{2, 21},   {3, 40},   {5, 71},   {9, 152}, {11, 181},
          {14, 240}, {20, 374}, {24, 439}, {26, 485}};
}

// Table 2 (gadmm_test.cpp, invariant 8).
struct GadmmTable2Nightly : ::testing::TestWithParam<Table2> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GadmmTable2Nightly);
INSTANTIATE_TEST_SUITE_P(Workers, GadmmTable2Nightly, ::testing::ValuesIn(table_2()));

TEST_P(GadmmTable2Nightly, PublishedIterations) {
  const auto& [n, expected] = GetParam();
  ConvexJob chain("gadmm", body_fat_of(std::getenv("LONGHAUL_BODY_FAT"), n), {{"rho", {3.}}},
                  expected + 1);
  const double least = chain.whole.value(chain.whole.argmin(0, std::vector<double>(14)));
  chain.job.run(100000000);
  EXPECT_EQ(
      testing::first_below(1e-4, expected + 1, [&](Round k) { return chain.published(k, least); }),
      expected)
      << n << " workers";
}

TEST(GadmmRulesNightly, ASettledRunGoesOnForItsHold) {
  const RuleRun settled = run_until("settled", 5, 1000, {{"hold", {std::int64_t(50)}}});
  EXPECT_EQ(settled.holds, 603u);
  EXPECT_EQ(settled.rounds, 603u + 49 + 22);
}

// gadmm_test.cpp, invariant 4.
TEST(GadmmRulesNightly, TheOtherRulesEndARunToo) {
  const RuleRun every = run_until("every_model", 5, 1000);
  EXPECT_EQ(every.holds, 428u);
  EXPECT_EQ(every.rounds, 428u + 22);
  EXPECT_EQ(run_until("settled", 3, 200).holds, std::nullopt) << "160 is a change of sign";
}

}  // namespace
}  // namespace longhaul::sync
