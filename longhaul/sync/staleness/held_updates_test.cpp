// The numbers of the properties are those of sync/staleness_lab_test.cpp.
#include "longhaul/sync/staleness/held_updates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "longhaul/base/archive.h"
#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/effort.h"

namespace longhaul::sync::staleness {
namespace {

HeldUpdates::Update update(Round iteration, Rank origin, std::vector<float> values,
                           double weight = 1) {
  return {.iteration = iteration,
          .origin = origin,
          .values = std::make_shared<const std::vector<float>>(std::move(values)),
          .weight = weight,
          .rate = 0.1};
}

double stability_limit(std::uint32_t s) {
  return 2 * std::sin(std::numbers::pi / (2 * (2 * double(s) + 1)));
}

// The largest amplitude of the last iterations of gradient descent on x^2 / 2, from 1, by `workers`
// of which each computes on its own parameters and all updates are s late.
double amplitude(std::uint32_t s, double rate, std::uint32_t workers) {
  const Round iterations = longhaul::testing::kGate ? 1000 * (s + 1) : 20000;
  std::vector<HeldUpdates> held(workers, HeldUpdates(0));
  std::vector<float> x(workers, 1);
  double most = 0;
  for (Round t = 0; t < iterations; ++t) {
    for (std::uint32_t i = 0; i < workers; ++i) held[i].apply(t, std::span(x).subspan(i, 1));
    for (Rank origin = 0; origin < workers; ++origin) {
      const auto u = update(t, origin, {float(-rate * double(x[origin]))}, 1 / double(workers));
      for (auto& one : held) one.hold(t + 1 + s, u);
    }
    if (t + 4 * s + 8 > iterations) most = std::max(most, std::abs(double(x[0])));
    if (std::abs(double(x[0])) > 1e30) return 1e30;  // before a float is infinite
  }
  return most;
}

TEST(HeldUpdates, Inv2_ConstantDelayIsStableUpToItsLimit) {
  const double limits[] = {2, 1, 0.6180, 0.3473, 0.1845, 0.0952};
  const std::uint32_t delays[] = {0, 1, 2, 4, 8, 16};
  for (std::size_t i = 0; i < std::size(delays); ++i) {
    const double limit = stability_limit(delays[i]);
    EXPECT_NEAR(limit, limits[i], 5e-5);
    if (longhaul::testing::kGate && delays[i] > 4) continue;  // the longer, the slower
    EXPECT_LT(amplitude(delays[i], 0.98 * limit, 1), 1e-6) << "s = " << delays[i];
    EXPECT_GT(amplitude(delays[i], 1.02 * limit, 1), 1e6) << "s = " << delays[i];
  }
  EXPECT_LT(amplitude(2, 0.98 * stability_limit(2), 3), 1e-6);
  EXPECT_GT(amplitude(2, 1.02 * stability_limit(2), 3), 1e6);
}

TEST(HeldUpdates, Inv4And5_AppliesEachOnceWhenItIsDueAndTheRestAtTheFlush) {
  HeldUpdates held(0);
  std::vector<float> x = {0}, generated = {0};
  std::uint64_t count = 0;
  for (Round t = 0; t < 40; ++t) {
    const std::uint64_t before = held.applied();
    const auto applied = held.apply(t, x);
    EXPECT_EQ(held.applied(), before + applied.updates);
    EXPECT_LE(applied.delays, applied.updates * 6);  // 1 + s
    EXPECT_GE(applied.delays, applied.updates);
    for (Rank origin = 0; origin < 3; ++origin) {
      const float u = float(std::uint64_t{1} << (t % 20)) * float(origin + 1);
      generated[0] += u;
      ++count;
      held.hold(t + 1 + (t * 5 + origin) % 6, update(t, origin, {u}));
    }
    EXPECT_EQ(held.applied() + held.held(), count);
  }
  EXPECT_LT(held.applied(), count);
  EXPECT_NE(x, generated);
  held.flush(40, x);
  EXPECT_EQ(held.held(), 0u);
  EXPECT_EQ(held.applied(), count);
  EXPECT_EQ(x, generated);  // sums of powers of two are exact
}

// 1 is lost beside 1e17 unless the 1 and the -1e17 are added in another order.
TEST(HeldUpdates, TheOrderIsThatOfDueIterationAndOrigin) {
  const auto sum = [](std::vector<std::pair<Round, HeldUpdates::Update>> updates) {
    HeldUpdates held(0);
    for (auto& [due, one] : updates) held.hold(due, std::move(one));
    std::vector<float> x = {0};
    held.apply(9, x);
    return x[0];
  };
  const auto big = [](Round t, Rank o) { return update(t, o, {1e17f}); };
  const auto less = [](Round t, Rank o) { return update(t, o, {-1e17f}); };
  const auto one = [](Round t, Rank o) { return update(t, o, {1}); };
  EXPECT_EQ(sum({{5, one(1, 2)}, {5, less(1, 1)}, {5, big(1, 0)}}), 1);
  EXPECT_EQ(sum({{5, less(1, 2)}, {5, one(1, 1)}, {5, big(1, 0)}}), 0);
  EXPECT_EQ(sum({{5, big(1, 2)}, {5, less(2, 1)}, {5, one(3, 0)}}), 1);
  EXPECT_EQ(sum({{4, big(3, 2)}, {5, less(2, 1)}, {6, one(1, 0)}}), 1);
  EXPECT_EQ(sum({{4, big(3, 2)}, {6, less(2, 1)}, {5, one(1, 0)}}), 0);
}

TEST(HeldUpdates, CompensationIsItsFormula) {
  HeldUpdates held(0.3);
  std::vector<float> x = {2};
  held.begin(4, x);
  held.hold(6, update(4, 0, {-0.2f}, 0.5));
  x[0] = 1.5f;  // moved by others
  held.begin(5, x);
  held.hold(7, update(5, 0, {0}, 0.5));
  held.apply(6, x);
  // g = 2, of which lambda g^2 (x - x_t) is added, times rate 0.1
  EXPECT_FLOAT_EQ(x[0], 1.5f + 0.5f * (-0.2f - 0.1f * 0.3f * 4 * (1.5f - 2)));
  held.begin(6, x);
  const float before = x[0];
  held.apply(7, x);
  EXPECT_EQ(x[0], before);
}

TEST(HeldUpdates, GoesOnFromItsState) {
  for (const double compensation : {0.0, 0.2}) {
    HeldUpdates held(compensation), loaded(compensation);
    std::vector<float> x = {2, 3};
    for (Round t = 0; t < 3; ++t) {
      held.begin(t, x);
      held.hold(t + 3, update(t, 1, {0.5f, -1}, 0.5));
      held.apply(t + 1, x);
    }
    ASSERT_TRUE(longhaul::testing::copy_state(held, loaded));
    std::vector<float> y = x;
    held.flush(4, x);
    loaded.flush(4, y);
    EXPECT_EQ(x, y);
    EXPECT_EQ(loaded.applied(), 3u);
  }
}

}  // namespace
}  // namespace longhaul::sync::staleness
