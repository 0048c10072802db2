#include "longhaul/sync/shadow/write_back.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/sync/shadow/global_model.h"

namespace longhaul::sync::shadow {
namespace {

using Floats = std::vector<float>;

// shadowsync_test.cpp, invariant 4: what was added between snapshot and write-back.
TEST(WriteBack, KeepsWhatWasLearnedMeanwhile) {
  const Floats y{1, 2, -3}, target{3, 2, 5};
  const float learned = 0.5f;
  for (const double alpha : {0.25, 0.5, 1.0}) {
    Floats w = y;
    for (float& x : w) x += learned;
    Floats delta = w, interpolate = w;
    write_back(delta, target, y, alpha, WriteBack::delta);
    write_back(interpolate, target, y, alpha, WriteBack::interpolate);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double moved = (1 - alpha) * double(y[i]) + alpha * double(target[i]);
      EXPECT_FLOAT_EQ(delta[i], float(moved + double(learned)));  // weight 1
      EXPECT_FLOAT_EQ(interpolate[i], float(moved + (1 - alpha) * double(learned)));
    }
  }
}

// Without steps meanwhile, to the bit, also where target - y is not a float.
TEST(WriteBack, AlphaOneIsTheTargetAndAlphaZeroTheParameters) {
  const Floats y{1e-9f, 1.0f / 3, -7e8f}, target{1e9f, 0.7f, 0.1f};
  Floats w = y;
  write_back(w, target, y, 0, WriteBack::delta);
  EXPECT_EQ(w, y);
  write_back(w, target, y, 1, WriteBack::delta);
  EXPECT_EQ(w, target);
  Floats trained{5, 6, 7};
  write_back(trained, target, y, 0, WriteBack::delta);
  EXPECT_EQ(trained, (Floats{5, 6, 7}));
}

// shadowsync_test.cpp, invariant 5: n trainers that each learn unit noise in every round.
double disagreement(double alpha, WriteBack rule) {
  constexpr std::size_t kTrainers = 8, kLength = 500, kRounds = 60, kWarm = 20;
  Random random(3, {});
  std::vector<Floats> w(kTrainers, Floats(kLength, 0));
  GlobalModel global({});
  global.begin(w[0]);
  double sum = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::vector<double> z(kLength, 0);
    for (const Floats& y : w) {
      const Floats d = global.difference(y);
      for (std::size_t i = 0; i < kLength; ++i) z[i] += double(d[i]) / kTrainers;
    }
    global.take(Floats(z.begin(), z.end()), kTrainers);
    for (Floats& x : w) {
      const Floats y = x;
      for (std::size_t i = 0; i < kLength; ++i) {
        const double apart = double(y[i]) - double(global.target()[i]);
        if (round >= kWarm) sum += apart * apart;
        x[i] += float((random.uniform() - 0.5) * std::sqrt(12.0));
      }
      write_back(x, global.target(), y, alpha, rule);
    }
  }
  return sum / double(kTrainers * kLength * (kRounds - kWarm));
}

TEST(WriteBack, DisagreementIsSteady) {
  EXPECT_NEAR(disagreement(0.5, WriteBack::delta), 1.1667, 0.03 * 1.1667);
  EXPECT_NEAR(disagreement(1, WriteBack::delta), 0.875, 0.03 * 0.875);
  EXPECT_NEAR(disagreement(0.5, WriteBack::interpolate), 0.2917, 0.03 * 0.2917);
}

}  // namespace
}  // namespace longhaul::sync::shadow
