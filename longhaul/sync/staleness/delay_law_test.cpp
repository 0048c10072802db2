// The numbers of the properties are those of sync/staleness_lab_test.cpp.
#include "longhaul/sync/staleness/delay_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace longhaul::sync::staleness {
namespace {

const std::vector<Rank> kWorkers = {0, 1, 3, 4};

DelayLaw law(std::string kind, std::uint32_t most, std::vector<double> histogram = {}) {
  return DelayLaw({std::move(kind), most, std::move(histogram)}, true, 7, kWorkers);
}

struct Moments {
  double mean = 0, variance = 0;
  std::uint32_t least = 1000, most = 0;
};
Moments moments(const DelayLaw& law) {
  double count = 0, sum = 0, squares = 0;
  Moments m;
  for (Round t = 0; t < 6250; ++t)
    for (const Rank sender : kWorkers)
      for (const Rank receiver : kWorkers) {
        const std::uint32_t r = law.delay(sender, receiver, t);
        ++count, sum += r, squares += double(r) * r;
        m.least = std::min(m.least, r), m.most = std::max(m.most, r);
      }
  m.mean = sum / count;
  m.variance = squares / count - m.mean * m.mean;
  return m;
}

// 10^5 draws.
TEST(DelayLaw, Inv3_UniformHasItsSupportMeanAndVariance) {
  for (const std::uint32_t s : {1u, 8u, 32u}) {
    const Moments m = moments(law("uniform", s));
    EXPECT_EQ(m.least, 0u);
    EXPECT_EQ(m.most, s);
    EXPECT_NEAR(m.mean, s / 2.0, 0.01 * s / 2.0);
    const double variance = (double(s + 1) * (s + 1) - 1) / 12;
    EXPECT_NEAR(m.variance, variance, 0.02 * variance);
  }
}

TEST(DelayLaw, Inv3_IsAFunctionOfSeedPairAndIterationAlone) {
  const DelayLaw one = law("uniform", 1000), same = law("uniform", 1000);
  const DelayLaw other({"uniform", 1000, {}}, true, 8, kWorkers);
  std::map<std::uint32_t, int> seen;
  for (const Round t : {9u, 2u, 5u})  // in any order
    for (const Rank sender : kWorkers)
      for (const Rank receiver : kWorkers) {
        EXPECT_EQ(one.delay(sender, receiver, t), same.delay(sender, receiver, t));
        EXPECT_NE(one.delay(sender, receiver, t), other.delay(sender, receiver, t));
        ++seen[one.delay(sender, receiver, t)];
      }
  EXPECT_GT(seen.size(), 40u);  // of 48
}

TEST(DelayLaw, TheOthersHaveTheMeansThatTheyPromise) {
  const Moments constant = moments(law("constant", 5));
  EXPECT_EQ(constant.mean, 5);
  EXPECT_EQ(constant.variance, 0);
  const Moments late = moments(law("straggler", 8));
  EXPECT_NEAR(late.mean, 8.0 / 4, 0.1);
  double weight = 0, mean = 0;
  for (int j = 0; j <= 8; ++j) {
    weight += std::pow(8.0 / 12, j);
    mean += j * std::pow(8.0 / 12, j);
  }
  EXPECT_NEAR(moments(law("geometric", 8)).mean, mean / weight, 0.03);
  EXPECT_LT(mean / weight, 2);
  const Moments drawn = moments(law("trace", 0, {1, 0, 2, 0, 1, 0}));
  EXPECT_NEAR(drawn.mean, 2, 0.03);
  EXPECT_EQ(drawn.most, 4u);
}

// All receivers find the same sender slow.
TEST(DelayLaw, OneSenderIsTheStragglerOfAnIteration) {
  const DelayLaw straggler = law("straggler", 8);
  for (Round t = 0; t < 50; ++t) {
    std::map<Rank, int> late;
    for (const Rank sender : kWorkers)
      for (const Rank receiver : kWorkers)
        if (straggler.delay(sender, receiver, t) == 8) ++late[sender];
    ASSERT_EQ(late.size(), 1u);
    EXPECT_EQ(late.begin()->second, 4);
  }
}

TEST(DelayLaw, Inv9_ATraceOfZerosIsNoDelay) {
  const DelayLaw zeros = law("trace", 99, {12});
  EXPECT_EQ(zeros.most(), 0u);
  EXPECT_EQ(moments(zeros).most, 0u);
}

TEST(DelayLaw, OwnUpdatesAreInTimeWithoutSelfDelay) {
  const DelayLaw others({"constant", 4, {}}, false, 7, kWorkers);
  EXPECT_EQ(others.delay(3, 3, 1), 0u);
  EXPECT_EQ(others.delay(3, 1, 1), 4u);
}

}  // namespace
}  // namespace longhaul::sync::staleness
