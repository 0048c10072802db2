#include "longhaul/overlay/tsengine_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace longhaul::overlay::tsengine {
namespace {

using Ranks = std::vector<Rank>;

TEST(TsEngineChoice, TS_7_GreedIsTheShareOfTheKnown) {
  constexpr int kDraws = 10'000;
  const Ranks candidates = {1, 2, 3, 4, 5, 6};
  const Rate half = [](Rank, Rank to) {
    return to <= 3 ? std::optional(double(to)) : std::nullopt;
  };
  for (const double greed : {0.9, 0.3}) {
    int greedy = 0;
    for (int i = 0; i < kDraws; ++i) {
      Random random(7, {Purpose::test, std::uint64_t(i)});
      const Rank to = choose_receiver(0, candidates, half, greed, random);
      EXPECT_GE(to, 3u) << "neither the fastest nor unknown";
      greedy += to == 3;
    }
    const double p = std::min(0.5, greed);
    EXPECT_NEAR(greedy, kDraws * p, 3 * std::sqrt(kDraws * p * (1 - p))) << greed;
  }
}

TEST(TsEngineChoice, TS_7_WithAllKnownAndLittleGreedEveryoneIsChosen) {
  const Ranks candidates = {1, 2, 3};
  const Rate equal = [](Rank, Rank) { return std::optional(1.0); };
  std::map<Rank, int> chosen;
  for (int i = 0; i < 3000; ++i) {
    Random random(7, {Purpose::test, std::uint64_t(i)});
    ++chosen[choose_receiver(0, candidates, equal, 0.5, random)];
  }
  EXPECT_NEAR(chosen[1], 2000, 120) << "the lowest of equal ones";
  EXPECT_NEAR(chosen[2], 500, 80);
  EXPECT_NEAR(chosen[3], 500, 80);
}

}  // namespace
}  // namespace longhaul::overlay::tsengine
