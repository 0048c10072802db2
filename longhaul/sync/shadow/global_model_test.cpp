#include "longhaul/sync/shadow/global_model.h"

#include <gtest/gtest.h>

namespace longhaul::sync::shadow {
namespace {

using Floats = std::vector<float>;

Floats as_floats(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST(GlobalModel, TheMeanFollowsTheDifferences) {
  GlobalModel global({});
  global.begin(Floats{1, 2});
  EXPECT_EQ(global.difference(Floats{4, 1}), (Floats{3, -1}));
  global.take(Floats{3, -1}, 2);
  EXPECT_EQ(as_floats(global.target()), (Floats{4, 1}));
  EXPECT_EQ(as_floats(global.model()), (Floats{4, 1}));
  EXPECT_TRUE(global.fits(2));
  EXPECT_FALSE(global.fits(3));
}

// shadowsync_test.cpp, invariant 6
TEST(GlobalModel, AFilterWithoutMomentumIsTheMean) {
  GlobalModel mean({}), filtered(Filter{.mu = 0, .zeta = 1});
  for (GlobalModel* global : {&mean, &filtered}) global->begin(Floats{1, -2, 1e-3f});
  for (const Floats& z : {Floats{0.3f, 7, 1e-4f}, Floats{-0.1f, 5, 2e-4f}, Floats{2, 1, 3}}) {
    mean.take(z, 3);
    filtered.take(z, 3);
    for (std::size_t i = 0; i < z.size(); ++i)
      EXPECT_NEAR(filtered.target()[i], mean.target()[i],
                  1e-6 * std::abs(double(mean.target()[i])));
  }
}

// d <- ybar - w_glob; v <- mu v + zeta d; w_glob <- w_glob + v, with mu = 1 - 1/n.
TEST(GlobalModel, MomentumIsByTheNumberOfTrainers) {
  GlobalModel global(Filter{.mu = {}, .zeta = 0.5});
  global.begin(Floats{0});
  global.take(Floats{8}, 4);  // ybar 8: v = 4, w_glob = 4
  EXPECT_EQ(as_floats(global.target()), Floats{4});
  global.take(Floats{0}, 4);  // ybar 8: v = 0.75 * 4 + 0.5 * 4 = 5, w_glob = 9
  EXPECT_EQ(as_floats(global.target()), Floats{9});
  global.take(Floats{0}, 2);  // one half of 5, less 0.5: v = 2, w_glob = 11
  EXPECT_EQ(as_floats(global.target()), Floats{11});
  EXPECT_TRUE(global.fits(1));
  EXPECT_FALSE(global.fits(0));
}

TEST(GlobalModel, NesterovLooksAheadAndTheModelDoesNot) {
  GlobalModel global(Filter{.mu = 0.5, .zeta = 1, .nesterov = true});
  global.begin(Floats{0});
  global.take(Floats{8}, 4);
  EXPECT_EQ(as_floats(global.model()), Floats{8});
  EXPECT_EQ(as_floats(global.target()), Floats{12});
  EXPECT_TRUE(global.fits(1));
}

}  // namespace
}  // namespace longhaul::sync::shadow
