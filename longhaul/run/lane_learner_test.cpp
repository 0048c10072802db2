// Lanes of a trainer on threads of their own.
#include "longhaul/run/lane_learner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>

#include "longhaul/base/testing/archived.h"
#include "longhaul/core/testing/quadratic.h"

namespace longhaul::run {
namespace {

using longhaul::testing::Quadratic;

constexpr std::size_t kSize = 50;

// A lane's learner that does as it is told by the test.
class LaneDouble final : public Learner {
 public:
  using Before = std::function<Status()>;  // a gradient is computed
  LaneDouble(Quadratic::Config config, Before before)
      : inner_(kSize, config), before_(std::move(before)) {}

  std::shared_ptr<const Layout> layout() const override { return inner_.layout(); }
  std::span<float> params() override { return inner_.params(); }
  std::span<float> grads() override { return inner_.grads(); }
  Result<StepResult> step(const Work& work) override {
    LH_TRY(before_());
    return inner_.step(work);
  }
  void state(Archive& ar) override { inner_.state(ar); }

 private:
  Quadratic inner_;
  Before before_;
};

LaneLearner lanes_of(std::size_t count, const LaneDouble::Before& before,
                     Quadratic::Config shared = {.rate = 0.05f}) {
  shared.samples = 4 * count;
  Quadratic::Config part = shared;
  part.samples = 4;
  std::vector<std::unique_ptr<Learner>> lanes;
  for (std::size_t i = 0; i < count; ++i)
    lanes.push_back(std::make_unique<LaneDouble>(part, before));
  return LaneLearner(std::make_unique<Quadratic>(kSize, shared), std::move(lanes), {});
}

const LaneDouble::Before kNothing = [] { return Status(Ok{}); };

StepResult step(LaneLearner& learner, const Work& work = LocalStep{}) {
  auto result = learner.step(work);
  EXPECT_TRUE(result) << result.error().what;
  return result ? *result : StepResult{};
}

// With one at a time, this would wait forever.
TEST(LaneLearner, GradientsAreComputedAtTheSameTime) {
  std::barrier<> all(3);
  std::atomic<int> met = 0;
  LaneLearner learner = lanes_of(3, [&] {
    if (met < 3) {
      ++met;
      all.arrive_and_wait();
    }
    return Status(Ok{});
  });
  step(learner);
  EXPECT_GE(met, 3);
}

TEST(LaneLearner, ASingleLaneIsTheLearnerItself) {
  const Quadratic::Config config{.rate = 0.1f, .momentum = 0.5f};
  LaneLearner learner = lanes_of(1, kNothing, config);
  Quadratic alone(kSize, config);
  for (int i = 0; i < 20; ++i) {
    step(learner);
    ASSERT_TRUE(alone.step(LocalStep{}));
    const std::vector<float> mine(learner.params().begin(), learner.params().end());
    EXPECT_EQ(mine, std::vector<float>(alone.params().begin(), alone.params().end())) << i;
  }
}

// Saving waits for all lanes, so that none is left behind for long, whatever the machine does.
TEST(LaneLearner, LanesTogetherFindTheMinimum) {
  LaneLearner learner = lanes_of(4, kNothing);
  for (int i = 0; i < 100; ++i) {
    for (int lane = 0; lane < 4; ++lane) step(learner);
    Archive out;
    learner.state(out);
  }
  const Quadratic target(kSize, {});
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(learner.params()[i], target.target(i), 1e-3);
}

// What the strategy writes between two steps is what the next gradients are computed at; those
// under way are applied to it.
TEST(LaneLearner, ParametersAreTheStrategysBetweenSteps) {
  LaneLearner learner = lanes_of(2, kNothing, {.rate = 0.5f});
  step(learner);
  for (int i = 0; i < 3; ++i) {
    std::ranges::fill(learner.params(), 1000.f * float(i));
    const std::vector<float> written(learner.params().begin(), learner.params().end());
    EXPECT_EQ(learner.params()[7], written[7]);
    step(learner);
    // rate times a gradient at 10 or at what was written before: not the old parameters
    EXPECT_LE(std::abs(learner.params()[7] - written[7]), 0.5f * 3000);
  }
}

TEST(LaneLearner, AnEpochIsAllSamplesOfAllLanes) {
  LaneLearner learner = lanes_of(3, kNothing);  // 4 samples a step, 12 in all
  std::vector<bool> ends;
  for (int i = 0; i < 9; ++i) {
    const StepResult result = step(learner);
    EXPECT_EQ(result.samples, 4u);
    EXPECT_EQ(result.shard_size, 12u);
    ends.push_back(result.exhausted);
  }
  EXPECT_EQ(ends, (std::vector<bool>{false, false, true, false, false, true, false, false, true}));
}

TEST(LaneLearner, RunningStatisticsAreThoseOfTheLastBatch) {
  LaneLearner learner = lanes_of(1, kNothing, {.buffers = 2});
  const float before = learner.params()[kSize - 1];
  for (int i = 1; i <= 3; ++i) {
    step(learner);
    EXPECT_EQ(learner.params()[kSize - 1], before + float(i));
  }
}

TEST(LaneLearner, AFailedGradientEndsTheRun) {
  std::atomic<int> left = 5;
  LaneLearner learner = lanes_of(2, [&]() -> Status {
    if (--left < 0) return unavailable("no such device");
    return Ok{};
  });
  Status last = Ok{};
  for (int i = 0; i < 10 && last; ++i)
    if (auto result = learner.step(LocalStep{}); !result) last = result.error();
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().what, "no such device");
}

// A single lane is deterministic: what is under way is saved, and applied after loading.
TEST(LaneLearner, SaveAndLoadGoesOnWithTheGradientsUnderWay) {
  const Quadratic::Config config{.rate = 0.1f, .momentum = 0.5f};
  LaneLearner straight = lanes_of(1, kNothing, config), resumed = lanes_of(1, kNothing, config);
  for (int i = 0; i < 5; ++i) step(straight);
  ASSERT_TRUE(longhaul::testing::copy_state(straight, resumed));
  for (int i = 0; i < 5; ++i) {
    step(straight);
    step(resumed);
  }
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_EQ(straight.params()[i], resumed.params()[i]);
}

TEST(LaneLearner, ATornCheckpointIsAnError) {
  LaneLearner learner = lanes_of(2, kNothing);
  step(learner);
  const Buffer whole = longhaul::testing::saved(learner);
  for (std::size_t cut = 0; cut < whole.size(); cut += 37) {
    Archive in(std::span<const std::byte>(whole).first(cut));
    learner.state(in);
    EXPECT_FALSE(in.finish()) << cut;
  }
}

// Other work is not the lanes' and does not wait for them.
TEST(LaneLearner, OtherWorkIsThatOfTheSharedLearner) {
  LaneLearner learner = lanes_of(2, [] { return Status(unavailable("a lane was asked")); });
  const std::vector<float> before(learner.params().begin(), learner.params().end());
  step(learner, ScratchStep{});
  step(learner, ResetOptimizer{});
  EXPECT_EQ(before, std::vector<float>(learner.params().begin(), learner.params().end()));
}

}  // namespace
}  // namespace longhaul::run
