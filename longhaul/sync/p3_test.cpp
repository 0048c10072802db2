// Invariants:
// 1  The model is bit-identical to bsp, for both orders; learn/torch_learner_test.cpp.
// 2  A forward part starts as soon as its mean has arrived.
// 3  No chunk leaves while one of a lower part waits in the same queue: overlay/attempt_test.cpp,
//    tests/p3_test.cpp.
// 4  Saved and loaded after any event, it continues bit-identical: tests/resume_test.cpp.
// 5  After a loss all end with one model, a returned node too: tests/loss_test.cpp,
//    tests/return_test.cpp.
// 6  Unsuitable settings and models are refused with the reason.
#include "longhaul/sync/p3.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::TestJob;

constexpr std::uint32_t kOut = 3, kIn = 4;

// Two parts, eight numbers and a fully connected layer; and two buffers.
TestJob::Config p3_job(std::uint32_t n, Round rounds, std::string order = "shallow_first") {
  return {.sync = "p3",
          .settings = {{"order", {std::move(order)}}},
          .learners = learners(n, {.rate = 0.1f,
                                   .momentum = 0.5f,
                                   .buffers = 2,
                                   .out = kOut,
                                   .in = kIn,
                                   .layer_last = true}),
          .size = kOut * (kIn + 1) + 8 + 2,
          .stop = {.max_rounds = rounds, .report_every = 3}};
}

// Invariant 1: to the bit, with momentum, unequal samples and parts that come at any time.
TEST(P3, TheModelIsThatOfBsp) {
  constexpr Round kRounds = longhaul::testing::kGate ? 8 : 20;
  for (const std::uint32_t n : {1u, 2u, 4u})
    for (const char* order : {"shallow_first", "fifo"}) {
      TestJob::Config config = p3_job(n, kRounds, order);
      for (std::uint32_t k = 0; k < n; ++k) config.learners[k].samples = 1 + k;
      config.takes = [](Rank rank) { return int(rank * 7 % 5) * 3; };
      auto job = TestJob::ended(config);
      config.sync = "bsp";
      config.settings = {};
      auto bsp = TestJob::ended(config);
      EXPECT_TRUE(job.failures.empty()) << job.failures.begin()->second;
      for (Rank rank = 0; rank < n; ++rank) {
        EXPECT_EQ(job.finished[rank], 1);
        EXPECT_EQ(job.params(rank), bsp.params(0)) << n << order;
        EXPECT_EQ(job.node(rank).strategy().rounds_done(), kRounds);
      }
      EXPECT_EQ(job.reports, bsp.reports);
      EXPECT_TRUE(job.errors.empty());
    }
}

// Invariant 2: a part of the next forward pass is computed as soon as its own mean is here.
TEST(P3, AForwardPartWaitsForItsOwnMeanAlone) {
  TestJob job(p3_job(2, 3));
  const auto& strategy = dynamic_cast<const P3&>(job.node(0).strategy());
  ASSERT_EQ(strategy.parts().size(), 2u);
  EXPECT_EQ(strategy.parts()[0].values, (Range{0, 8}));
  EXPECT_EQ(strategy.parts()[1].values, (Range{8, kOut * (kIn + 1)}));
  std::set<std::string> waits;
  job.after_event = [&] { waits.insert(job.node(1).strategy().waiting_for().substr(0, 11)); };
  job.run();
  EXPECT_TRUE(waits.contains("part 0 of 2")) << "named, while it waits";
}

// Invariant 6.
TEST(P3, SettingsThatDoNotFitAreRefused) {
  std::vector<LayerRange> layers;
  for (std::uint64_t i = 0; i < 3; ++i)
    layers.push_back({"l" + std::to_string(i),
                      {4 * i, 4},
                      {2, 2},
                      LayerRange::Role::parameter,
                      LayerRange::Linear::weight});
  Place place;
  place.layout = std::make_shared<const Layout>(layers);
  P3::Config config;
  EXPECT_TRUE(P3::check(config, place));
  config.shares = {1, 2, 1};
  EXPECT_TRUE(P3::check(config, place));
  for (const std::vector<double>& wrong :
       {std::vector<double>{1, 2}, {0, 0, 0}, {1, -1, 1}, {1, 1, 1, 1}}) {
    config.shares = wrong;
    const Status status = P3::check(config, place);
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().what.find("shares: expected 3 numbers"), std::string::npos)
        << status.error().what;
  }
}

// Invariant 4.
TEST(P3, IsTheSameAfterSavingAndLoading) {
  EXPECT_EQ(testing::changed_by_saving(p3_job(3, 4)), "");
  EXPECT_EQ(testing::changed_by_saving(p3_job(2, 4, "fifo")), "");
}

// Invariant 5.
TEST(P3, TheOthersGoOnWhenAWorkerIsLost) {
  for (int at = 1; at < 60; at += longhaul::testing::kGate ? 13 : 4) {
    TestJob job(p3_job(4, 8));
    job.crash_at(at, 2);
    job.run();
    for (const Rank rank : {0u, 1u, 3u}) {
      EXPECT_EQ(job.finished[rank], 1) << "event " << at;
      EXPECT_EQ(job.params(rank), job.params(0)) << "event " << at;
    }
    EXPECT_TRUE(job.failures.empty()) << job.failures.begin()->second;
  }
}

}  // namespace
}  // namespace longhaul::sync
