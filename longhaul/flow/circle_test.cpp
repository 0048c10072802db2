#include "longhaul/flow/circle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::flow {
namespace {

using Places = std::vector<std::uint32_t>;

// Rates that are drawn, unlike in the two directions of a pair.
struct Drawn {
  Drawn(std::uint32_t n, std::uint64_t seed, std::uint64_t kinds) : n(n), rates(n * n) {
    Random random(seed, {Purpose::test});
    for (double& rate : rates) rate = double(1 + random.below(kinds));
  }
  double operator()(std::uint32_t from, std::uint32_t to) const { return rates[from * n + to]; }
  std::pair<double, double> worth(const Places& order) const {
    double slowest = std::numeric_limits<double>::infinity(), sum = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double hop = (*this)(order[i], order[(i + 1) % order.size()]);
      slowest = std::min(slowest, hop);
      sum += hop;
    }
    return {slowest, sum};
  }
  std::uint32_t n;
  std::vector<double> rates;
};

bool visits_all(Places order, std::uint32_t n) {
  if (order.empty() || order[0] != 0) return false;
  std::sort(order.begin(), order.end());
  Places all(n);
  std::iota(all.begin(), all.end(), 0u);
  return order == all;
}

// Against all circles there are.
TEST(Circle, OfFewPlacesItIsTheBestOfAll) {
  for (std::uint32_t n = 2; n <= 7; ++n) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const Drawn rates(n, seed, seed % 2 == 0 ? 4 : 1000);
      const Circle circle = best_circle(n, rates);
      ASSERT_TRUE(visits_all(circle.order, n));
      Places order(n);
      std::iota(order.begin(), order.end(), 0u);
      std::pair<double, double> best = rates.worth(order);
      while (std::next_permutation(order.begin() + 1, order.end()))
        best = std::max(best, rates.worth(order));
      EXPECT_EQ(std::pair(circle.slowest, circle.sum), best) << n << ", seed " << seed;
      EXPECT_EQ(rates.worth(circle.order), best);
    }
  }
}

// A circle of fast links is hidden among slow ones, so that nothing but a search finds it.
TEST(Circle, OfTwelvePlacesTooAndOfMoreItIsMuchBetterThanAny) {
  for (const std::uint32_t n : {12u, 13u, 30u}) {
    Random random(n, {Purpose::test});
    Places hidden(n);
    std::iota(hidden.begin(), hidden.end(), 0u);
    random.shuffle(std::span(hidden).subspan(1));
    const auto rate = [&](std::uint32_t from, std::uint32_t to) {
      const auto at = std::find(hidden.begin(), hidden.end(), from) - hidden.begin();
      return hidden[std::size_t(at + 1) % n] == to ? 100.0 : 1.0;
    };
    const Circle circle = best_circle(n, rate);
    ASSERT_TRUE(visits_all(circle.order, n));
    EXPECT_EQ(circle.slowest, 100);
    EXPECT_EQ(circle.order, hidden);
  }
}

// Two-opt mends what is left for the way home of one that always takes the fastest next.
TEST(Circle, OfManyPlacesNoStretchTurnedRoundMakesItBetter) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto n = std::uint32_t(13 + seed);
    const Drawn rates(n, seed, 1000);
    const Circle circle = best_circle(n, rates);
    ASSERT_TRUE(visits_all(circle.order, n));
    for (std::size_t first = 1; first < n; ++first)
      for (std::size_t last = first + 1; last < n; ++last) {
        Places turned = circle.order;
        std::reverse(turned.begin() + std::ptrdiff_t(first),
                     turned.begin() + std::ptrdiff_t(last) + 1);
        ASSERT_LE(rates.worth(turned), std::pair(circle.slowest, circle.sum)) << "seed " << seed;
      }
  }
}

// What limits nobody, or all alike, leaves the order of the ranks.
TEST(Circle, WhereAllLinksAreAlikeItIsByRank) {
  const double unlimited = std::numeric_limits<double>::infinity();
  for (const std::uint32_t n : {1u, 2u, 5u, 12u, 40u}) {
    Places ranks(n);
    std::iota(ranks.begin(), ranks.end(), 0u);
    for (const double rate : {unlimited, 7.0, 0.0})
      EXPECT_EQ(best_circle(n, [&](auto, auto) { return rate; }).order, ranks) << n << " " << rate;
  }
  // Beside a rate that is finite, an unlimited one is as good as the best.
  const auto rate = [&](std::uint32_t from, std::uint32_t to) {
    return from + 1 == to || (from == 3 && to == 0) ? unlimited : 1.0;
  };
  const Circle circle = best_circle(4, rate);
  EXPECT_TRUE(std::isfinite(circle.sum));
}

}  // namespace
}  // namespace longhaul::flow
