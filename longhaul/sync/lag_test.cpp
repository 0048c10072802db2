// Invariants. Body Fat is as in gadmm_test.cpp, with L = 594.016825.
// 1  f_0 = 1/2 (t - 1)^2, f_1 = 9/2 (t + 1)^2, alpha = 1/10, D = 1, xi = 1: 0, -4/5, -22/25, -4/5,
//    -99/125, -4/5.
// 2  `always` on Body Fat: F - F* after 1, 2, 10, 100 steps: 17.9499, 14.3635, 3.42203, .829430;
//    5533 rounds to 1e-4.
// 3  xi = 0 is gradient descent, bit for bit.
// 4  With the defaults the objective does not rise on Body Fat.
// 5  `worker` on Body Fat: 5292 rounds (2 %), 700 to 815 uploads of 52920; the first 30 rounds as
//    the formulas.
// 6  Measured L_m are the largest eigenvalues.
// 7  `server`: 5528 rounds, 16148 uploads (2 %); `cyclic` 55321 rounds, `random` about 55310.
// Kills and returns at many moments: tests/peer_return_test.cpp, tests/return_test.cpp.
#include "longhaul/sync/lag.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/testing/body_fat.h"
#include "longhaul/sync/testing/lag_job.h"

namespace longhaul::sync {
namespace {

using testing::bowl;
using testing::ConvexJob;
using testing::LeastSquares;
using testing::QuadraticForm;
using testing::rule;
using testing::TestJob;
using Forms = std::vector<QuadraticForm>;
using Vector = std::vector<double>;
using longhaul::testing::kStride;

Forms body_fat_workers() {
  Forms forms;
  for (std::uint32_t n = 0; n < testing::kBodyFatWorkers; ++n)
    forms.push_back(testing::body_fat(n));
  return forms;
}

std::vector<double> figures(ConvexJob& star, const char* name) {
  std::vector<double> values;
  for (const auto& [round, value] : star.job.records[{0, name}]) values.push_back(value);
  return values;
}

void expect_done(ConvexJob& star) {
  expect_no_errors(star.job);
  for (Rank n = 0; n < star.size(); ++n) EXPECT_EQ(star.job.finished[n], 1);
}

// Invariant 1: f_0 = 1/2 (t - 1)^2, f_1 = 9/2 (t + 1)^2, alpha = 1/10, D = 1, xi = 1.
TEST(Lag, TwoParabolasGiveTheseFractions) {
  for (const char* kind : {"worker", "server"}) {
    auto star = ConvexJob::ended(
        "lag", {bowl(1, 1), bowl(9, -1)},
        rule(kind, {{"memory", {std::int64_t(1)}}, {"xi", {1.0}}, {"smoothness", {10.0}}}), 6);
    expect_done(star);
    EXPECT_EQ(figures(star, "uploads"), (std::vector<double>{2, 1, 2, 1, 2, 1})) << kind;
    const double models[] = {0, -4. / 5, -22. / 25, -4. / 5, -99. / 125, -4. / 5};
    // Worker 1 is asked in every round, by either rule.
    const auto& all = dynamic_cast<LeastSquares&>(star.job.any_learner(1)).gradients;
    ASSERT_GE(all.size(), 6u);
    EXPECT_NEAR(all.front()[0], models[0], 1e-14);
    for (std::size_t k = 1; k < 6; ++k)
      EXPECT_NEAR(all[all.size() - 6 + k][0], models[k], 1e-12) << kind << " " << k;
  }
}

// Invariant 2.
TEST(Lag, GradientDescentOnBodyFatFallsAsPublished) {
  constexpr Round kRounds = longhaul::testing::kGate ? 12 : 102;
  auto star = ConvexJob::ended("lag", body_fat_workers(),
                               rule("always", {{"smoothness", {testing::kBodyFatSmoothness}}}),
                               kRounds, 1000000);
  expect_done(star);
  const std::vector<double> objective = figures(star, "objective");
  const std::map<std::size_t, double> expected = {
      {1, 17.9499}, {2, 14.3635}, {10, 3.42203}, {100, .829430}};
  for (const auto& [k, value] : expected)
    if (k < kRounds)
      EXPECT_NEAR(objective.at(k) - testing::kBodyFatLeast, value, 1e-5 * value) << k;
  for (const double uploads : figures(star, "uploads")) EXPECT_EQ(uploads, 10);
}

// Invariant 3: with xi = 0 whoever's gradient has moved at all uploads it.
TEST(Lag, WithoutPatienceItIsGradientDescent) {
  constexpr Round kRounds = longhaul::testing::kGate ? 20 : 40;
  const Setting smooth = {"smoothness", {testing::kBodyFatSmoothness}};
  ConvexJob lazy("lag", body_fat_workers(), rule("worker", {smooth, {"xi", {0.0}}}), kRounds);
  ConvexJob eager("lag", body_fat_workers(), rule("always", {smooth}), kRounds);
  lazy.job.run(1000000);
  eager.job.run(1000000);
  EXPECT_EQ(figures(lazy, "objective"), figures(eager, "objective"));
  EXPECT_EQ(figures(lazy, "uploads"), figures(eager, "uploads"));
}

// Invariant 4.
TEST(Lag, TheObjectiveNeverRisesOnBodyFat) {
  constexpr Round kRounds = longhaul::testing::kGate ? 70 : 120;
  auto star = ConvexJob::ended("lag", body_fat_workers(),
                               rule("worker", {{"smoothness", {testing::kBodyFatSmoothness}}}),
                               kRounds, 1000000);
  expect_done(star);
  const std::vector<double> objective = figures(star, "objective");
  for (std::size_t k = 1; k < objective.size(); ++k) EXPECT_LE(objective[k], objective[k - 1]) << k;
  double uploads = 0;
  for (const double some : figures(star, "uploads")) uploads += some;
  EXPECT_LT(uploads, 5 * kRounds) << "half of all";
}

Round rounds_of(std::vector<Setting> settings, Round most, double& uploads) {
  settings.push_back({"smoothness", {testing::kBodyFatSmoothness}});
  auto star = ConvexJob::ended("lag", body_fat_workers(), std::move(settings), most, 100000000);
  expect_done(star);
  // The server records the objective of the model before the round's step.
  const std::vector<double> objective = figures(star, "objective"), each = figures(star, "uploads");
  std::size_t k = 0;
  while (k < objective.size() && objective[k] - testing::kBodyFatLeast >= 1e-4) ++k;
  uploads = 0;
  for (std::size_t i = 0; i < k; ++i) uploads += each[i];
  return k;
}

// Invariants 2, 3 and 5.
TEST(LagNightly, BodyFatTakesAsManyRoundsAsPublished) {
  double uploads = 0;
  EXPECT_EQ(rounds_of(rule("always"), 5540, uploads), 5533u);
  EXPECT_EQ(rounds_of(rule("worker", {{"xi", {0.0}}}), 5540, uploads), 5533u);
  EXPECT_EQ(uploads, 55330);
  EXPECT_NEAR(double(rounds_of(rule("worker"), 5500, uploads)), 5292, 0.02 * 5292);
  EXPECT_GE(uploads, 680);
  EXPECT_LE(uploads, 840);
}

// A run that scores the model of every round, by the loss over all data, until it is within 1e-4.
Round scored_rounds(const char* kind, Round most, double& uploads) {
  const Forms forms = body_fat_workers();
  TestJob::Config config = ConvexJob::config(
      "lag", forms, rule(kind, {{"smoothness", {testing::kBodyFatSmoothness}}}), most);
  config.stop.report_every = 1;
  config.stop.lag = 0;
  config.stop.target_loss = testing::kBodyFatLeast + 1e-4;
  config.score = [whole = testing::sum_of(forms)](std::span<const float> model) {
    return Evaluation{.loss = whole.value(Vector(model.begin(), model.end())), .samples = 1};
  };
  ConvexJob star(forms, config);
  star.job.run(1000000000);
  expect_done(star);
  uploads = 0;
  for (const double some : figures(star, "uploads")) uploads += some;
  return figures(star, "uploads").size();
}

// Invariants 5 and 7. One round more is begun before a score is known.
TEST(LagNightly, RulesOfTheServerTakeAsManyRoundsAsPublished) {
  double uploads = 0;
  EXPECT_NEAR(double(scored_rounds("server", 6000, uploads)), 5528, .02 * 5528);
  EXPECT_NEAR(uploads, 16148, .02 * 16148);
  EXPECT_NEAR(double(scored_rounds("cyclic", 60000, uploads)), 55321, .0002 * 55321);
  EXPECT_NEAR(double(scored_rounds("random", 60000, uploads)), 55310, .002 * 55310);
}

// The run ends by the loss of a round, which the server has before its step. Rules by which not all
// compute look at it in the rounds that are reported, and descend as they do without.
TEST(Lag, ARunEndsAtItsLeastLoss) {
  constexpr Round kMost = 400, kReport = 10;
  const Forms forms = {bowl(1, 1), bowl(9, 1), bowl(2, 4)};
  const QuadraticForm whole = testing::sum_of(forms);
  const double least = whole.value(whole.argmin(0, Vector(1)));
  for (const char* kind : {"worker", "always", "server", "cyclic", "random"}) {
    SCOPED_TRACE(kind);
    TestJob::Config config = ConvexJob::config(
        "lag", forms, rule(kind, {{"least", {least}}, {"tolerance", {1e-3}}}), kMost);
    config.stop.report_every = kReport;
    ConvexJob star(forms, config);
    star.job.run(1000000);
    expect_done(star);
    const Round rounds = star.job.node(0).strategy().rounds_done();
    const std::vector<double> objective = figures(star, "objective");
    EXPECT_LT(objective.back() - least, 1e-3);
    EXPECT_GE(objective.at(objective.size() - 2) - least, 1e-3);
    ASSERT_LT(rounds, kMost);
    // The same run without `least`.
    config.settings = rule(kind);
    config.stop.max_rounds = rounds;
    ConvexJob plain(forms, config);
    plain.job.run(1000000);
    EXPECT_EQ(figures(plain, "uploads"), figures(star, "uploads"));
    EXPECT_EQ(plain.job.params(0), star.job.params(0));
  }
}

// A step that is too long: what grows ends the run as diverged, and no message is refused on the
// way, which somebody would wait for.
TEST(Lag, ATooLongStepDiverges) {
  const Forms forms = {bowl(1, 1), bowl(9, -1), bowl(2, 3)};
  for (const bool server_apart : {false, true})
    for (const char* kind : {"worker", "always", "server", "cyclic", "random"}) {
      SCOPED_TRACE(std::string(kind) + (server_apart ? ", a server apart" : ""));
      TestJob::Config config =
          ConvexJob::config("lag", forms, rule(kind, {{"smoothness", {1e-4}}}), 2000);
      if (server_apart) {
        config.roles = {std::uint8_t(Role::worker), std::uint8_t(Role::server),
                        std::uint8_t(Role::worker)};
        config.server = 1;
      }
      auto job = TestJob::ended(config, 1000000);
      ASSERT_FALSE(job.failures.empty());
      for (const auto& [rank, why] : job.failures)
        EXPECT_TRUE(why.find("larger [sync] smoothness") != std::string::npos ||
                    why.find("diverged") != std::string::npos)
            << why;
      EXPECT_TRUE(job.errors.empty()) << job.errors.front();
    }
}

// Invariant 5: who uploads in the first 30 rounds, against the formulas of lag/descent.h written
// down once more.
TEST(Lag, TheTriggersOfTheFirstRoundsAreThoseOfTheFormula) {
  constexpr std::size_t kRounds = 30, kMemory = 10;
  const Forms forms = body_fat_workers();
  auto star = ConvexJob::ended("lag", forms,
                               rule("worker", {{"smoothness", {testing::kBodyFatSmoothness}}}),
                               kRounds, 1000000);
  expect_done(star);
  const double alpha = 1 / testing::kBodyFatSmoothness;
  Vector theta(14);
  std::vector<Vector> uploaded(10, Vector(14));
  std::vector<double> moves, expected;
  const auto square = [](const Vector& v) {
    double sum = 0;
    for (const double one : v) sum += one * one;
    return sum;
  };
  for (std::size_t k = 0; k < kRounds; ++k) {
    double rhs = 0;
    for (std::size_t j = moves.size() - std::min(moves.size(), kMemory); j < moves.size(); ++j)
      rhs += .1 / (alpha * alpha * 100) * moves[j];
    double count = 0;
    Vector sum(14), move(14);
    for (Rank m = 0; m < 10; ++m) {
      Vector gradient = forms[m].gradient(theta), change = gradient;
      for (std::size_t i = 0; i < 14; ++i) change[i] -= uploaded[m][i];
      if (k < kMemory || square(change) > rhs) uploaded[m] = gradient, ++count;
      for (std::size_t i = 0; i < 14; ++i) sum[i] += uploaded[m][i];
    }
    for (std::size_t i = 0; i < 14; ++i) theta[i] += move[i] = -alpha * sum[i];
    moves.push_back(square(move));
    expected.push_back(count);
  }
  EXPECT_EQ(figures(star, "uploads"), expected);
}

// Invariant 6.
TEST(Lag, WorkersMeasureHowSmoothTheirLossIs) {
  const double known[] = {64.2078, 80.4118, 72.7381, 56.4607, 51.9314,
                          63.8677, 72.1603, 57.4732, 56.3709, 57.0014};
  for (std::uint32_t n = 0; n < testing::kBodyFatWorkers; ++n) {
    const QuadraticForm form = testing::body_fat(n);
    const Vector at(form.size(), 0.0);
    lag::Smoothness smoothness;
    smoothness.begin(at, form.gradient(at), Random(1, {.purpose = Purpose::init, .origin = n}));
    while (!smoothness.is_known()) smoothness.probed(form.gradient(smoothness.probe()));
    EXPECT_NEAR(smoothness.value(), known[n], 2e-4) << n;
  }
}

// Every rule ends at the optimum, with equal models.
TEST(Lag, EveryRuleConverges) {
  const Forms forms = {bowl(1, 1), bowl(9, -1), bowl(2, 4)};
  const double best = (1 - 9 + 8) / 12.;
  for (const char* kind : {"worker", "server", "always", "cyclic", "random"}) {
    auto star =
        ConvexJob::ended("lag", forms, rule(kind), longhaul::testing::kGate ? 150 : 400, 1000000);
    expect_done(star);
    for (Rank n = 0; n < 3; ++n) EXPECT_NEAR(star.job.params(n)[0], best, 1e-5) << kind;
  }
}

TEST(Lag, SavingChangesNothing) {
  for (const char* kind : {"worker", "server", "random"}) {
    TestJob::Config config{.sync = "lag",
                           .settings = rule(kind, {{"memory", {std::int64_t(2)}}}),
                           .learners = testing::learners(3, {.samples = 2})};
    config.stop.max_rounds = 8;
    EXPECT_EQ(testing::changed_by_saving(config), "") << kind;
  }
}

// The server's side of LAG, wherever it runs: losses, and a server without a learner.

// Whoever is lost, the server (rank 0) too, at whatever moment: the optimum is that of the others.
TEST(Lag, ALossAtAnyMomentLeavesTheRightOptimum) {
  const Forms forms = {bowl(1, 1), bowl(9, -1), bowl(2, 4), bowl(3, 3)};
  constexpr bool kGate = longhaul::testing::kGate;
  const double weights[] = {1, 9, 2, 3}, targets[] = {1, -1, 4, 3};
  std::uint64_t number = 0;
  for (const char* kind : {"worker", "server", "random"}) {
    // In the gate a few moments, other ones for each rule.
    for (std::uint64_t moment = kGate ? 1 + 101 * number++ : 1; moment < 400;
         moment += kGate ? 211 : kStride) {
      const Rank dead = moment % 4;
      ConvexJob star("lag", forms, rule(kind), kGate ? 150 : 300);
      star.job.crash_at(moment, dead);
      star.job.run(1000000);
      double pull = 0, weight = 0;
      for (const Rank n : star.job.live()) {
        pull += weights[n] * targets[n];
        weight += weights[n];
      }
      for (const Rank n : star.job.live()) {
        EXPECT_EQ(star.job.finished[n], 1) << kind << ", rank " << dead << " at " << moment;
        EXPECT_NEAR(star.job.params(n)[0], pull / weight, kGate ? 1e-3 : 1e-4)
            << kind << ", rank " << dead << " at " << moment;
      }
      EXPECT_TRUE(star.job.errors.empty()) << star.job.errors.front();
    }
  }
}

// Some have had the last model and some have not.
TEST(Lag, ALossNearTheEndEndsTheRunAtAll) {
  const Forms forms = {bowl(1, 1), bowl(9, -1), bowl(2, 4)};
  for (std::uint64_t moment = 1; moment < 150; moment += kStride) {
    ConvexJob star("lag", forms, rule("always"), 3);
    star.job.crash_at(moment, 0);
    star.job.run(1000000);
    EXPECT_EQ(star.job.finished[1], 1) << moment;
    EXPECT_EQ(star.job.finished[2], 1) << moment;
    EXPECT_EQ(star.job.params(1), star.job.params(2)) << moment;
    EXPECT_TRUE(star.job.errors.empty()) << star.job.errors.front();
  }
}

TEST(Lag, AServerOfItsOwnHasNoLearner) {
  TestJob::Config config =
      ConvexJob::config("lag", {bowl(1, 1), bowl(9, -1), bowl(2, 4)}, rule("worker"), 200);
  config.roles = {std::uint8_t(Role::worker), std::uint8_t(Role::server),
                  std::uint8_t(Role::worker)};
  config.server = 1;
  auto job = TestJob::ended(config);
  EXPECT_TRUE(job.errors.empty()) << job.errors.front();
  for (Rank n = 0; n < 3; ++n) EXPECT_EQ(job.finished[n], 1);
  EXPECT_NEAR(job.params(0)[0], 9. / 3, 1e-5);
  EXPECT_EQ(job.params(0), job.params(2));
}

}  // namespace
}  // namespace longhaul::sync
