// Invariants. Further tests: shadow/*_test.cpp, tests/shadowsync_test.cpp.
//  1  alpha = 0 is training alone, bit for bit: ShadowSync.AlphaZeroIsTrainingAloneBitForBit.
//  2  w + c is conserved; two bodies shrink by 1 - 2 alpha: Elastic.AnExchangeConserves*,
//     Elastic.ATrainerAnd*.
//  3  Without training models shrink by 1 - alpha to their mean: ShadowSync.WithoutTraining*.
//  4  Progress during a round has weight 1 (interpolate: 1 - alpha):
//     WriteBack.KeepsWhatWasLearned*, Elastic.*.
//  5  The steady disagreement, with unit noise per round: (1 - 1/n) / (1 - (1 - alpha)^2) for
//     delta, (1 - alpha)^2 times that for interpolate: WriteBack.DisagreementIsSteady.
//  6  BMUF with mu = 0, zeta = 1 is MA: GlobalModel.AFilterWithoutMomentumIsTheMean.
//  7  w_glob, v and the round are bit-identical: ShadowSync.AllEndWithEqualBits.
//     A lane's request does not wait behind other vectors: ShadowSync.RequestsDoNotWaitBehind*.
//  8  Messages 100 times slower change the time of no step:
//     ShadowSync.SlowMessagesChangeTheTimeOfNoStep.
//  9  Trainers done at different times stop in the same round: ShadowSync.ARunEndsWhenAllAreDone*,
//     *Phantoms*.
// 10  A push counts once; one of another server epoch never: Elastic.APush*.
// 11  Bytes of a round: ShadowSync.ARoundMovesTheBytesOfItsExchange.
// 12  FR-MA, alpha = 1, is local SGD; MA without delays lags a boundary: *.TheForeground*,
//     *.WithoutDelays*.
// 13  No gap exceeds `max_gap`: ShadowSync.NoTrainerExceedsTheMaximalGap.
//     A lane's gradient is m - 1 steps old; lanes do not block each other: ShadowSync.Lanes*,
//     *ALane*. Lanes on threads: run/lane_learner_test.cpp, tests/cli/lanes_test.py.
//     Parts of the centre cover the vector; a lost part moves: Shards.*, ShadowSync.Shards*,
//     *TwoLosses*.
// 14  Saving and loading after any event: ShadowSync.SavingAfterEveryEvent*, tests/resume_test.cpp.
#include "longhaul/sync/shadowsync.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/sync/shadow/mean_trainer.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::Quadratic;
using testing::TestJob;
using Floats = std::vector<float>;

Setting text(const std::string& key, const std::string& value) { return {key, {value}}; }
Setting integer(const std::string& key, int value) { return {key, {std::int64_t{value}}}; }

TestJob::Config shadow_job(std::uint32_t n, Round rounds, std::vector<Setting> settings) {
  return {.sync = "shadowsync",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.1f, .momentum = 0.5f, .buffers = 2}),
          .stop = {.max_rounds = rounds, .report_every = 2},
          .takes = [](Rank rank) { return int(rank) * 3; }};
}

const std::vector<std::string> kAlgorithms = {"ma", "bmuf", "easgd"};
const std::vector<std::string> kModes = {"background", "foreground"};

// Invariant 7: w_glob, v and the rounds are equal, else later rounds would differ.
TEST(ShadowSync, AllEndWithEqualBits) {
  for (const std::string& algorithm : kAlgorithms) {
    for (const std::string& mode : kModes) {
      for (const Round rounds : {1u, 2u, 5u}) {
        SCOPED_TRACE(algorithm + " " + mode);
        auto job = TestJob::ended(shadow_job(4, rounds,
                                             {text("algorithm", algorithm),
                                              text("mode", mode),
                                              {"nesterov", {true}},
                                              integer("steps", 3)}));
        expect_ended_alike(job);
        for (Rank rank = 0; rank < 4; ++rank)
          EXPECT_EQ(job.node(rank).strategy().rounds_done(), rounds);
      }
    }
  }
}

// Invariant 1, until the run ends with the model that all have in common.
TEST(ShadowSync, AlphaZeroIsTrainingAloneBitForBit) {
  for (const std::string& algorithm : kAlgorithms) {
    for (const char* rule : {"delta", "interpolate"}) {
      SCOPED_TRACE(algorithm + " " + rule);
      TestJob::Config config = shadow_job(
          3, 6, {text("algorithm", algorithm), text("write_back", rule), {"alpha", {0.0}}});
      std::vector<std::vector<Floats>> alone(3);
      for (Rank rank = 0; rank < 3; ++rank) {
        Quadratic learner(config.size, config.learners[rank]);
        for (int step = 0; step < 400; ++step) {
          alone[rank].emplace_back(learner.params().begin(), learner.params().end());
          ASSERT_TRUE(learner.step(LocalStep{}));
        }
      }
      TestJob job(config);
      int compared = 0;
      job.after_event = [&] {
        for (Rank rank = 0; rank < 3; ++rank) {
          if (job.node(rank).strategy().rounds_done() >= 5) continue;
          ASSERT_EQ(job.params(rank), alone[rank].at(job.steps[rank]));
          ++compared;
        }
      };
      job.run();
      EXPECT_GT(compared, 50);
      expect_ended_alike(job);
    }
  }
}

// Invariant 3: nobody trains; the test says where trainers stand.
TEST(ShadowSync, WithoutTrainingModelsComeTogetherByOneMinusAlpha) {
  for (const char* rule : {"delta", "interpolate"}) {
    TestJob::Config config = shadow_job(4, 9, {text("write_back", rule), {"alpha", {0.25}}});
    for (auto& learner : config.learners) learner = {.rate = 0, .buffers = 0};
    TestJob job(config);
    int events = 0, compared = 0;
    const float start[] = {8, -4, 16, 0};
    job.after_event = [&] {
      if (++events == 4)  // all have started, none has taken a step
        for (Rank rank = 0; rank < 4; ++rank)
          std::ranges::fill(job.learner(rank).params(), start[rank]);
      for (Rank rank = 0; rank < 4 && events >= 4; ++rank) {
        const Round round = job.node(rank).strategy().rounds_done();
        if (round >= 8) continue;
        const double apart = std::pow(0.75, double(round)) * (double(start[rank]) - 5);
        EXPECT_NEAR(job.params(rank)[0], 5 + apart, 2e-6 * 16);
        ++compared;
      }
    };
    job.run();
    EXPECT_GT(compared, 100);
    expect_ended_alike(job);
    EXPECT_NEAR(job.params(2)[0], 5, 2e-6 * 16);
  }
}

// Invariant 12, first half.
TEST(ShadowSync, TheForegroundTwinWithAlphaOneIsLocalSgdBitForBit) {
  TestJob::Config twin =
      shadow_job(4, 6, {text("mode", "foreground"), {"alpha", {1.0}}, integer("steps", 3)});
  TestJob::Config local = twin;
  local.sync = "fedavg";
  local.settings = {integer("steps", 3), text("weights", "equal"), {"reset_optimizer", {false}}};
  auto a = TestJob::ended(twin), b = TestJob::ended(local);
  for (Rank rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(a.params(rank), b.params(rank));
    EXPECT_EQ(a.steps[rank], 18u);
    EXPECT_EQ(b.steps[rank], 18u);
  }
}

// Invariant 12, second half: messages arrive before the next boundary.
TEST(ShadowSync, WithoutDelaysABoundaryHasTheMeanOfTheOneBefore) {
  TestJob::Config config = shadow_job(3, 8, {{"alpha", {1.0}}});
  config.takes = [](Rank) { return 40; };
  config.stop.report_every = 1;
  for (auto& learner : config.learners) learner.momentum = 0;
  std::vector<float> scored;
  config.score = [&](const Floats& model) {
    scored.push_back(model[0]);
    return Evaluation{};
  };
  auto job = TestJob::ended(config);
  expect_ended_alike(job);
  ASSERT_EQ(scored.size(), 8u);
  std::vector<double> w(3, 10), y(3);
  double ybar = 10;  // of the boundary before; the first snapshot is taken after the first step
  for (std::size_t round = 0; round < 8; ++round) {
    double mean = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const double start = round == 0 ? w[k] : y[k];
      const double base = round == 0 ? start : w[k];
      const double step = -0.1 * (base - double(k * k));
      w[k] = round == 0 ? base + step : w[k] + step + (ybar - y[k]);
    }
    for (std::size_t k = 0; k < 3; ++k) y[k] = w[k], mean += w[k] / 3;
    ybar = mean;
    EXPECT_NEAR(scored[round], ybar, 1e-4) << round;
  }
}

// Invariant 13
TEST(ShadowSync, NoTrainerExceedsTheMaximalGap) {
  for (const std::string& algorithm : kAlgorithms) {
    SCOPED_TRACE(algorithm);
    std::vector<Setting> settings = {text("algorithm", algorithm)};
    double without = 0, with = 0;
    for (double* most : {&without, &with}) {
      TestJob::Config config = shadow_job(3, 6, settings);
      config.takes = {};
      auto job = TestJob::ended(config);
      expect_ended_alike(job);
      for (Rank rank = 0; rank < 3; ++rank)
        for (const auto& [round, gap] : job.records[{rank, "gap"}]) *most = std::max(*most, gap);
      settings.push_back(integer("max_gap", 2));
    }
    EXPECT_GT(without, 2);
    EXPECT_EQ(with, 2);
  }
}

// Invariant 9: trainers are done at different times and stop in the same round.
TEST(ShadowSync, ARunEndsWhenAllAreDoneWithTheirData) {
  for (const std::string& algorithm : kAlgorithms) {
    for (const std::string& mode : kModes) {
      SCOPED_TRACE(algorithm + " " + mode);
      TestJob::Config config = shadow_job(4, 1000000,
                                          {text("algorithm", algorithm), text("mode", mode),
                                           integer("epochs", 10), integer("steps", 4)});
      config.takes = [](Rank rank) { return rank == 1 ? 60 : 0; };
      auto job = TestJob::ended(config);
      expect_ended_alike(job);
      for (Rank rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(job.steps[rank], 10u);  // a pass of this learner is a step
        EXPECT_EQ(job.node(rank).strategy().rounds_done(), job.node(0).strategy().rounds_done());
      }
    }
  }
}

TEST(ShadowSync, SavingAfterEveryEventChangesNothing) {
  for (const std::string& algorithm : kAlgorithms) {
    for (const std::string& mode : kModes) {
      // In the gate every algorithm in one mode, and either mode.
      const bool is_in_foreground = algorithm == "bmuf";
      if (longhaul::testing::kGate && is_in_foreground != (mode == "foreground")) continue;
      TestJob::Config config = shadow_job(2, 3,
                                          {text("algorithm", algorithm),
                                           text("mode", mode),
                                           {"nesterov", {true}},
                                           integer("steps", 2),
                                           integer("epochs", 7),
                                           integer("max_gap", 3)});
      if (mode == "background") config.codec = {text("kind", "int8"), {"error_feedback", {false}}};
      EXPECT_EQ(testing::changed_by_saving(config), "") << algorithm << mode;
    }
  }
}

TEST(ShadowSync, AlphaOneIsRefusedWhereItWouldEraseTheTraining) {
  Place place;
  place.members = std::make_shared<const Members>(Members{{"oslo"}});
  ShadowConfig config{.write_back = "interpolate", .alpha = 1.0};
  EXPECT_TRUE(says(shadow::MeanTrainer::check(config, place), "write_back"));
  config.write_back = "delta";
  EXPECT_TRUE(shadow::MeanTrainer::check(config, place));
}

// Each lane's gradient is that at the parameters of m - 1 steps ago.
TEST(ShadowSync, LanesApplyTheGradientsOfWhereTheyBegan) {
  for (const std::string algorithm : {"ma", "easgd"}) {
    for (const int lanes : {1, 2, 5}) {
      SCOPED_TRACE(algorithm + " " + std::to_string(lanes));
      TestJob::Config config = shadow_job(
          1, 60, {text("algorithm", algorithm), integer("lanes", lanes), {"alpha", {0.0}}});
      config.learners[0] = {.target = 3, .rate = 0.1f};
      TestJob job(config);
      std::vector<float> seen;
      job.after_event = [&] {
        const float now = job.params(0)[0];
        if (seen.empty() || now != seen.back()) seen.push_back(now);
      };
      job.run();
      expect_ended_alike(job);
      // The parameters of other lanes, while a gradient is computed there, stand between.
      std::vector<double> x = {10};
      for (std::size_t k = 0; k < 20; ++k) {
        const double at = x[k + 1 < std::size_t(lanes) ? 0 : k + 1 - std::size_t(lanes)];
        x.push_back(x[k] - 0.1 * (at - 3));
      }
      auto next = seen.begin();
      for (std::size_t k = 1; k < 20; ++k) {
        next = std::find_if(next, seen.end(),
                            [&](float one) { return std::abs(double(one) - x[k]) < 1e-4; });
        ASSERT_NE(next, seen.end()) << "after " << k << " steps: " << x[k];
      }
    }
  }
}

TEST(ShadowSync, SavingLanesAndShardsChangesNothing) {
  for (const std::string& algorithm : kAlgorithms) {
    TestJob::Config config = shadow_job(
        3, 3, {text("algorithm", algorithm), integer("lanes", 3), integer("servers", 2)});
    EXPECT_EQ(testing::changed_by_saving(config), "") << algorithm;
  }
}

TEST(ShadowSync, LanesThatWouldStopAllAtOnceAreRefused) {
  Place place;
  place.members = std::make_shared<const Members>(Members{{"oslo"}});
  EXPECT_TRUE(says(shadow::MeanTrainer::check({.mode = "foreground", .lanes = 4}, place), "easgd"));
}

// Several servers hold a part each: what is pulled and pushed is the whole vector all the same.
TEST(ShadowSync, ShardsOfTheCentreAreServedByDifferentNodes) {
  for (const std::string& mode : kModes) {
    for (const int servers : {2, 3, 64}) {
      SCOPED_TRACE(mode + " " + std::to_string(servers));
      auto job = TestJob::ended(shadow_job(4, 5,
                                           {text("algorithm", "easgd"),
                                            text("mode", mode),
                                            integer("steps", 2),
                                            {"alpha", {0.2}},
                                            integer("servers", servers)}));
      expect_ended_alike(job);
      // Targets are 0, 1, 4 and 9: whichever part a value is of, its mean is on the way from 10.
      const Floats x = job.params(0);
      for (std::size_t i = 0; i + 2 < x.size(); ++i) EXPECT_TRUE(x[i] < 9.9f && x[i] > 0) << x[i];
    }
  }
}

constexpr int kLossesEvery = longhaul::testing::kGate         ? 67
                             : longhaul::testing::kStride > 1 ? 41
                                                              : 3;

// The lowest rank serves the centre and counts the rounds; its loss, too, is survived.
TEST(ShadowSync, TwoLossesAtAnyMomentStopNoElasticTrainer) {
  for (int at = 1; at < 400; at += kLossesEvery) {
    SCOPED_TRACE(at);
    TestJob::Config config = shadow_job(5, 8, {text("algorithm", "easgd")});
    config.takes = [](Rank rank) { return int(rank * 5 % 7); };
    if (at % 2 == 0) config.settings.push_back(integer("epochs", 25));
    if (at % 3 > 0) config.settings.push_back(integer("servers", 1 + at % 5));
    if (at % 4 == 1) config.settings.push_back(integer("lanes", 2));
    TestJob job(config);
    const Rank first = at % 3 == 0 ? 0 : Rank(at % 5), second = (first + 1 + Rank(at / 5 % 4)) % 5;
    job.crash_at(at, first);
    job.crash_at(at + at % 37, second);
    job.run();
    expect_ended_alike(job);
  }
}

// All trainers pause with an exchange open when the gap may be one step: after the server's loss
// each asks its successor, without a step in between.
TEST(ShadowSync, AFullGapOutlivesTheLossOfTheServer) {
  constexpr int kEvery = longhaul::testing::kGate ? 13 : longhaul::testing::kStride > 1 ? 5 : 1;
  for (int at = 1; at < 150; at += kEvery) {
    SCOPED_TRACE(at);
    TestJob::Config config = shadow_job(4, 6, {text("algorithm", "easgd"), integer("max_gap", 1)});
    config.takes = {};
    TestJob job(config);
    job.crash_at(at, 0);
    job.run();
    EXPECT_TRUE(job.errors.empty()) << job.errors.front();
    for (Rank rank = 1; rank < 4; ++rank)
      ASSERT_EQ(job.finished[rank], 1) << rank << ": " << job.node(rank).waiting_for();
  }
}

}  // namespace
}  // namespace longhaul::sync
