#include "longhaul/flow/capacities.h"

#include <gtest/gtest.h>

#include "longhaul/flow/testing/wans.h"

namespace longhaul::flow {
namespace {

using std::chrono::seconds;

TEST(Capacities, RatesAreThoseOfTheMoment) {
  Wan wan = testing::equal_sites(2, 100);
  wan.traces.push_back(
      {Traced::What::rate, 0, 1, {.at = {0, 10, 30}, .values = {5, 6, 7}, .repeat_s = 40}});
  wan.traces.push_back({Traced::What::up, 1, 0, {.at = {0, 20}, .values = {8, 9}}});
  const auto at = [&](int time) { return Capacities(at_time(wan, 1, seconds(time))); };
  for (const auto& [time, pair, up] : {std::tuple{0, 5., 8.},
                                       {9, 5., 8.},
                                       {10, 6., 8.},
                                       {20, 6., 9.},
                                       {35, 7., 9.},
                                       {41, 5., 9.}}) {
    EXPECT_EQ(at(time).pair(0, 1), pair) << time;
    EXPECT_EQ(at(time).up[1], up) << time;
  }
}

TEST(Capacities, WhatIsRedrawnIsThatOfTheSeed) {
  Wan wan = testing::equal_sites(2, 100);
  const Trace redrawn{.kind = Trace::Kind::redraw, .low = 20, .high = 155, .every_s = 10};
  wan.traces.push_back({Traced::What::rate, 0, 1, redrawn});
  wan.traces.push_back({Traced::What::rate, 1, 0, redrawn});
  const Capacities one(at_time(wan, 1, seconds(25))), same(at_time(wan, 1, seconds(29)));
  EXPECT_EQ(one.pairs, same.pairs);
  for (const int time : {5, 25}) {
    const Capacities redrawn_apart(at_time(wan, 1, seconds(time)));
    EXPECT_NE(redrawn_apart.pair(0, 1), redrawn_apart.pair(1, 0)) << time;
  }
  EXPECT_NE(one.pairs, Capacities(at_time(wan, 2, seconds(25))).pairs);
  EXPECT_NE(one.pairs, Capacities(at_time(wan, 1, seconds(30))).pairs);
}

}  // namespace
}  // namespace longhaul::flow
