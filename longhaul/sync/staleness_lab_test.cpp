// Invariants (DelayLaw.*, HeldUpdates.*, Coherence.*: staleness/*_test.cpp):
//  1  s = 0, mean, sgd is bsp (1e-5), all parameters equal at all times: StalenessLab.Inv1_*.
//  2  Constant delay is stable at 0.98 and not at 1.02 of the limit, s = 0 .. 16:
//     HeldUpdates.Inv2_*.
//  3  uniform: support, mean, variance; a function of seed, pair and iteration: DelayLaw.Inv3_*.
//  4  applied + held = generated; after the flush no update is held: HeldUpdates.Inv4And5_*,
//     StalenessLab.Inv4_*.
//  5  No update before it is due, none later than 1 + s, each once: HeldUpdates.Inv4And5_*,
//     StalenessLab.Inv5_*.
//  6  sum at eta is mean at P eta, bit for bit with sgd and P a power of two: StalenessLab.Inv6_*.
//  7  Coherence of gradient descent on a quadratic is (1 - eta lambda)^-m at lag m: *Inv7_*.
//  8  Bit-identical when saved and loaded, and over sockets: StalenessLab.Inv8_*,
//     tests/sockets_test.cpp.
//  9  A trace of zeros is s = 0: DelayLaw.Inv9_*, StalenessLab.Inv9_*.
// 10  A run that diverges ends with that result at all workers: StalenessLab.Inv10_*.
// 11  The staleness of asp and ssp, replayed, gives their ratio (20 %):
//     bench/staleness.py --only traces.
// 12  Any losses and returns: all workers end with one model after the same rounds, or all as
//     diverged; what a lost worker has sent is applied: StalenessLab.Inv12_*,
//     tests/gossip_test.cpp, tests/peer_return_test.cpp.
#include "longhaul/sync/staleness_lab.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/one_node.h"
#include "longhaul/sync/testing/test_job.h"
#include "longhaul/transfer/reliable.h"

namespace longhaul::sync {
namespace {

using testing::Quadratic;
using testing::TestJob;

TestJob::Config lab_job(std::uint32_t n, std::vector<Setting> settings, Round rounds) {
  return {.sync = "staleness_lab",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.1f}),
          .stop = {.max_rounds = rounds, .report_every = 2}};
}
Setting late(std::int64_t s) { return {"max_delay", {s}}; }

TEST(StalenessLab, Inv1_WithoutDelayItIsSynchronousSgd) {
  TestJob job(lab_job(4, {late(0)}, 20));
  bool differ = false;
  job.after_event = [&] {
    for (Rank rank = 1; rank < 4; ++rank)
      differ |= job.node(rank).strategy().rounds_done() == job.node(0).strategy().rounds_done() &&
                job.params(rank) != job.params(0);
  };
  job.run();
  EXPECT_FALSE(differ);
  TestJob::Config config = lab_job(4, {}, 20);
  config.sync = "bsp";
  auto bsp = TestJob::ended(config);
  ASSERT_EQ(job.finished.size(), 4u);
  for (std::size_t i = 0; i < job.params(0).size(); ++i)
    EXPECT_NEAR(job.params(3)[i], bsp.params(3)[i], 1e-5 * std::abs(bsp.params(3)[i]));
}

TEST(StalenessLab, Inv4_AllEndWithAllUpdates) {
  // All gradients are those of the start: nothing is applied before the flush.
  TestJob job(lab_job(3, {late(50), {"delays", {std::string("constant")}}}, 4));
  const std::vector<float> start = job.params(0);
  job.run();
  ASSERT_EQ(job.finished.size(), 3u);
  for (std::size_t i = 0; i < start.size(); ++i) {
    double mean = 0;
    for (Rank rank = 0; rank < 3; ++rank) mean += double(job.learner(rank).target(i)) / 3;
    EXPECT_NEAR(job.params(1)[i], start[i] - 4 * 0.1 * (start[i] - mean), 1e-5);
  }
}

TEST(StalenessLab, Inv5_RecordsNoMoreThanTheMostDelay) {
  auto job = TestJob::ended(lab_job(3, {late(4)}, 30));
  double most = 0, sum = 0;
  const auto& staleness = job.records[{1, "staleness"}];
  for (const auto& [round, value] : staleness) most = std::max(most, value), sum += value;
  EXPECT_LE(most, 4);
  EXPECT_NEAR(sum / double(staleness.size()), 2, 0.5);
}

TEST(StalenessLab, Inv6_TheSumAtARateIsTheMeanAtWorkersTimesTheRate) {
  TestJob::Config sum = lab_job(4, {late(3), {"scale", {std::string("sum")}}}, 12);
  TestJob::Config mean = lab_job(4, {late(3)}, 12);
  for (auto& learner : sum.learners) learner.rate = 0.015625f;
  for (auto& learner : mean.learners) learner.rate = 4 * 0.015625f;
  auto one = TestJob::ended(sum), two = TestJob::ended(mean);
  EXPECT_EQ(one.params(2), two.params(2));
  sum.settings.push_back({"optimizer", {std::string("adam")}});
  mean.settings.push_back({"optimizer", {std::string("adam")}});
  auto adam = TestJob::ended(sum), also = TestJob::ended(mean);
  for (std::size_t i = 0; i < adam.params(0).size(); ++i)
    EXPECT_NEAR(adam.params(2)[i], also.params(2)[i], 1e-5 * std::abs(also.params(2)[i]) + 1e-6);
}

TEST(StalenessLab, Inv8_ASavedRunGoesOn) {
  const std::vector<std::vector<Setting>> all = {
      {late(3)},
      {late(3), {"optimizer", {std::string("adam")}}, {"in_order", {true}}},
      {late(2), {"compensation", {0.1}}, {"coherence_every", {std::int64_t{1}}}},
      {late(5), {"drop_above", {std::int64_t{3}}}, {"rate_by_delay", {true}}, {"clip", {0.5}}}};
  for (const auto& settings : all)
    EXPECT_EQ(testing::changed_by_saving(lab_job(3, settings, 6)), "");
}

TEST(StalenessLab, Inv9_ATraceOfZerosIsNoDelay) {
  const std::vector<Value> zeros = {Value{std::int64_t{5}}, Value{std::int64_t{0}}};
  TestJob trace(lab_job(3, {{"delays", {std::string("trace")}}, {"histogram", {zeros}}}, 8));
  TestJob none(lab_job(3, {late(0)}, 8));
  trace.run();
  none.run();
  EXPECT_EQ(trace.params(0), none.params(0));
}

// eta lambda = 0.5 is above the limit of 0.347 for s = 4.
TEST(StalenessLab, Inv10_ARunThatDivergesEndsWithThatResultAtAllWorkers) {
  TestJob::Config config = lab_job(3, {late(4), {"delays", {std::string("constant")}}}, 100000);
  for (auto& learner : config.learners) learner.rate = 0.5f;
  auto job = TestJob::ended(config, 1000000);
  EXPECT_EQ(job.finished.size(), 3u);
  EXPECT_TRUE(job.failures.empty());
  const Round last = job.node(0).strategy().rounds_done();
  EXPECT_LT(last, 200u);
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.node(rank).strategy().rounds_done(), last);
    EXPECT_TRUE(says(job.node(rank).strategy().diverged(), "the loss has grown from"));
  }
}

TEST(StalenessLab, AWorkerThatIsNotFiniteEndsTheRunForAllInTheSameIteration) {
  TestJob::Config config = lab_job(3, {late(1)}, 50);
  config.learners[1].start = 3e38f;
  config.learners[1].target = -3e38f;
  auto job = TestJob::ended(config);
  EXPECT_EQ(job.finished.size(), 3u);
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job.node(rank).strategy().rounds_done(), 1u);
    EXPECT_TRUE(says(job.node(rank).strategy().diverged(), "site1 (rank 1)"));
  }
}

// From one moment of the losses to the next. Odd.
constexpr int kLabMomentsApart = longhaul::testing::kGate         ? 91
                                 : longhaul::testing::kStride > 1 ? 97
                                                                  : 3;

TEST(StalenessLab, Inv12_TheOthersContinueAfterTwoLossesAtAnyMoment) {
  const std::vector<std::vector<Setting>> all = {
      {late(0)},
      {late(3), {"self_ahead", {true}}, {"in_order", {true}}},
      {late(2), {"compensation", {0.1}}, {"coherence_every", {std::int64_t{1}}}},
      {late(2), {"scale", {std::string("sum")}}, {"optimizer", {std::string("momentum")}}}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    TestJob::Config config = lab_job(5, all[i], 12);
    for (auto& learner : config.learners) learner.rate = 0.02f;
    config.takes = [](Rank rank) { return int(rank * 5 % 7) * 3; };
    for (int at = 1 + int(i); at < 700; at += kLabMomentsApart) {
      SCOPED_TRACE(std::to_string(i) + " at " + std::to_string(at));
      TestJob job(config);
      job.crash_at(at, 3);
      job.crash_at(at % 2 == 0 ? at : at + 40, 0);
      job.run();
      expect_ended_alike(job, 12);
    }
  }
}

// All gradients are those of the start, as nothing is applied before the flush: a model is known
// from the number of updates in each iteration.
TEST(StalenessLab, Inv12_WhatALostWorkerHasSentIsAppliedAndTheOthersShareTheMean) {
  constexpr Round kRounds = 12;
  TestJob job(lab_job(3, {late(50), {"delays", {std::string("constant")}}}, kRounds));
  const std::vector<float> start = job.params(0);
  bool crashed = false;
  job.after_event = [&] {
    if (crashed || job.node(0).strategy().rounds_done() < 5) return;
    crashed = true;
    job.crash(2);
  };
  job.run();
  expect_ended_alike(job, kRounds);
  const auto target = [&](Rank rank, std::size_t i) { return double(job.learner(rank).target(i)); };
  for (std::size_t i = 0; i < start.size(); ++i) {
    double expected = 0;
    for (Rank rank = 0; rank < 2; ++rank) {
      std::map<Round, double> workers;  // by iterations with fewer than three
      for (const auto& [round, value] : job.records[{rank, "workers"}]) workers[round] = value;
      EXPECT_FALSE(workers.contains(3));
      EXPECT_EQ(workers[kRounds - 1], 2);
      double x = double(start[i]);
      for (Round t = 0; t < kRounds; ++t) {
        const auto n = Rank(workers.contains(t) ? workers[t] : 3);
        double mean = n == 1 ? target(rank, i) : 0;
        for (Rank other = 0; n > 1 && other < n; ++other) mean += target(other, i) / n;
        x -= 0.1 * (double(start[i]) - mean);
      }
      expected += x / 2;
    }
    EXPECT_NEAR(job.params(0)[i], expected, 1e-4);
  }
}

// Workers can have other updates of the iteration of a loss. If one of them diverges, all do.
void expect_all_end_alike_if_one_diverges(const TestJob::Config& config, bool always) {
  int events = 0;
  {
    TestJob whole(config);
    whole.after_event = [&] { ++events; };
    whole.run(1000000);
  }
  for (int at = std::max(1, events - 200); at < events; at += (kLabMomentsApart + 5) / 6) {
    const auto lost = Rank(at % 3);
    SCOPED_TRACE("rank " + std::to_string(lost) + " lost at " + std::to_string(at));
    TestJob job(config);
    job.crash_at(at, lost);
    job.run(1000000);
    const Strategy& one = job.node(lost == 0 ? 1 : 0).strategy();
    EXPECT_TRUE(!always || one.diverged() != "");
    for (const Rank rank : job.live()) {
      EXPECT_EQ(job.finished[rank], 1) << rank << ": " << job.node(rank).waiting_for();
      EXPECT_EQ(job.node(rank).strategy().diverged().empty(), one.diverged().empty()) << rank;
    }
    expect_no_errors(job);
  }
}

TEST(StalenessLab, Inv12_ALossWhileTheRunDivergesEndsItForAll) {
  TestJob::Config grows = lab_job(4, {late(4), {"delays", {std::string("constant")}}}, 100000);
  for (auto& learner : grows.learners) learner.rate = 0.5f;
  expect_all_end_alike_if_one_diverges(grows, true);
  TestJob::Config is_not_finite = lab_job(4, {late(1)}, 5);
  is_not_finite.learners[1].start = 3e38f;
  is_not_finite.learners[1].target = -3e38f;
  is_not_finite.takes = [](Rank rank) { return int(rank * 5 % 7); };
  expect_all_end_alike_if_one_diverges(is_not_finite, false);
}

// Effect of each switch on the first late update: all are 2 late, from one worker.
TEST(StalenessLab, MitigationsChangeWhatTheySay) {
  const auto moved = [](std::vector<Setting> more, Round rounds = 1) {
    std::vector<Setting> settings = {late(2), {"delays", {std::string("constant")}}};
    settings.insert(settings.end(), more.begin(), more.end());
    TestJob::Config config = lab_job(1, settings, rounds);
    config.learners[0] = {.slope = 0, .start = 10, .rate = 0.1f};
    config.size = 1;
    auto job = TestJob::ended(config);
    return 10 - job.params(0)[0];
  };
  EXPECT_FLOAT_EQ(moved({}), 1);
  EXPECT_NEAR(moved({{"rate_by_delay", {true}}}), 1.0 / 3, 1e-6);
  EXPECT_FLOAT_EQ(moved({{"clip", {0.25}}}), 0.25f);
  EXPECT_FLOAT_EQ(moved({{"clip", {4.0}}}), 1);
  EXPECT_FLOAT_EQ(moved({{"drop_above", {std::int64_t{1}}}}), 0);
  EXPECT_FLOAT_EQ(moved({{"drop_above", {std::int64_t{2}}}}), 1);
  // Two steps: the second from 9 if the first was in time, else from 10.
  EXPECT_FLOAT_EQ(moved({{"cap", {std::int64_t{0}}}}, 2), 1.9f);
  EXPECT_FLOAT_EQ(moved({{"cap", {std::int64_t{1}}}}, 2), 2);
  EXPECT_FLOAT_EQ(moved({{"self_delay", {false}}}, 2), 1.9f);
}

// While no update of another is due, each trains alone; in the end each step counts by its share,
// as in one round of local SGD.
TEST(StalenessLab, OwnUpdatesThatAreAheadAreLocalTraining) {
  TestJob job(
      lab_job(3, {late(50), {"delays", {std::string("constant")}}, {"self_ahead", {true}}}, 4));
  const std::vector<float> start = job.params(0);
  const auto alone = [&](Rank rank, std::size_t i, Round steps) {
    const double target = double(job.learner(rank).target(i));
    return target + (double(start[i]) - target) * std::pow(0.9, double(steps));
  };
  int seen = 0;
  job.after_event = [&] {
    if (job.node(1).strategy().rounds_done() != 3 || job.params(1) == start) return;
    if (std::abs(job.params(1)[2] - alone(1, 2, 3)) < 1e-4) ++seen;
  };
  job.run();
  EXPECT_GT(seen, 0);
  ASSERT_EQ(job.finished.size(), 3u);
  for (std::size_t i = 0; i < start.size(); ++i) {
    double mean = 0;
    for (Rank rank = 0; rank < 3; ++rank) mean += alone(rank, i, 4) / 3;
    EXPECT_NEAR(job.params(1)[i], mean, 1e-4);
  }
}

TEST(StalenessLab, Inv7_CoherenceIsRecordedByTheFirstWorker) {
  TestJob::Config config = lab_job(1, {late(0), {"coherence_every", {std::int64_t{3}}}}, 10);
  auto job = TestJob::ended(config);
  const auto& mu = job.records[{0, "coherence"}];
  ASSERT_EQ(mu.size(), 3u);  // of iterations 3, 6 and 9
  for (const auto& [iteration, value] : mu) {
    EXPECT_EQ(iteration % 3, 0u);
    EXPECT_NEAR(value, 1 / (1 - 0.1), 1e-4);
  }
}

TEST(StalenessLab, BadSettingsAreNamed) {
  const testing::OneNode node(4);
  const auto why = [&](StalenessLab::Config config) {
    const Status status = StalenessLab::check(config, node.place);
    return status ? "" : status.error().what;
  };
  EXPECT_EQ(why({}), "");
  EXPECT_TRUE(says(why({.delays = "trace", .histogram = {0, 0}}), "histogram"));
  EXPECT_TRUE(says(why({.optimizer = "adam", .compensation = 1}), "\"sgd\""));
  EXPECT_TRUE(says(why({.self_ahead = true, .scale = "sum"}), "self_ahead"));
  EXPECT_TRUE(says(why({.self_delay = false, .self_ahead = true}), "self_ahead"));
  EXPECT_TRUE(says(why({.drop_above = 4, .cap = 3}), "cap = 3"));
}

// Two nodes without a host: a peer that lies.
struct LabNode : testing::OneNode {
  explicit LabNode(Rank self) : OneNode(4, {}, Members{{"a"}, {"b"}}) {
    place.self = self;
    SyncParts parts;
    parts.overlay = testing::everyone_to_everyone();
    parts.transfer = std::make_unique<transfer::Reliable>(place);
    parts.make_codec = [](bool) { return nullptr; };
    parts.rate = 0.1;
    lab = std::make_unique<StalenessLab>(StalenessLab::Config{}, std::move(parts), place);
  }
  std::unique_ptr<StalenessLab> lab;
};

class Liar final : public Machine {
 public:
  explicit Liar(const Place& place)
      : channel_(place,
                 {.stream = "updates",
                  .limits = ChannelLimits::models(2, *place.layout),
                  .one_view = true},
                 std::make_unique<transfer::Reliable>(place), nullptr, nullptr,
                 [](Rank, const StalenessHeader&, const ContentShape&) { return true; }) {
    own(overlay_stand_in_, {0, "overlay"});
    own(channel_, {1, "updates"});
  }
  // An update of the first `length` of 4 parameters; 0: none.
  void send(std::uint64_t length, bool finite, Turn& turn) {
    VectorContent content;
    if (length > 0)
      content = VectorContent::values(snapshot_of(std::vector<float>(length, 1)), {0, length});
    channel_.send({0}, {.is_finite = finite}, content, {}, within(channel_, turn));
  }

 private:
  Machine overlay_stand_in_;
  VectorChannel<StalenessHeader> channel_;
};

TEST(StalenessLab, RefusesUpdatesThatCannotBe) {
  const auto answers = [](std::vector<std::pair<std::uint64_t, bool>> sent) {
    LabNode node(0), peer(1);
    node.lab->on_start(node.turn);
    node.lab->on_progress(node.turn);
    Liar liar(peer.place);
    std::string answer;
    for (const auto& [length, finite] : sent) {
      liar.send(length, finite, peer.turn);
      for (const Send& send : peer.done<Send>()) {
        const Status status =
            node.lab->feed_message(1, send.message, send.message.machine, node.turn);
        if (!status && answer.empty()) answer = status.error().what;
      }
      peer.context.actions.clear();
    }
    return answer;
  };
  EXPECT_EQ(answers({{4, true}}), "");
  EXPECT_EQ(answers({{4, true}, {0, false}}), "");
  EXPECT_TRUE(says(answers({{3, true}}), "a vector that is no model"));
  EXPECT_TRUE(says(answers({{4, false}}), "a vector that is no model"));
  EXPECT_TRUE(says(answers({{0, true}}), "a vector that is no model"));
}

}  // namespace
}  // namespace longhaul::sync
