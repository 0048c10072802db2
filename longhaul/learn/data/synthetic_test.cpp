// Ratings and clicks; load_test.cpp has the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "longhaul/base/testing/effort.h"
#include "longhaul/learn/data/load.h"

namespace longhaul::learn {
namespace {

DataConfig clicks(std::uint32_t samples = 4000) {
  return {.kind = "clicks", .samples = samples, .test_samples = samples, .values = 100};
}

DataConfig ratings(std::uint32_t users = 60, std::uint32_t items = 80) {
  return {.kind = "ratings", .samples = 1500, .test_samples = 300, .users = users, .items = items};
}

TEST(Clicks, OfEachFieldASampleHasOneValueOfZipfsLaw) {
  const auto split = load_data(clicks());
  const DataSet& data = *split->train;
  ASSERT_EQ(data.size(), 4000u);
  EXPECT_EQ(data.shape.outputs, 2);
  EXPECT_EQ(data.shape.tables, std::vector<std::int64_t>(26, 2600));
  std::map<std::size_t, double> times;
  for (std::size_t i = 0; i < data.features.size(); ++i) {
    ASSERT_EQ(std::size_t(data.features[i]) / 100, i % 26) << i;
    ++times[std::size_t(data.features[i]) % 100];
  }
  double all = 0;
  for (int k = 1; k <= 100; ++k) all += std::pow(k, -1.1);
  EXPECT_NEAR(times[0] / double(data.features.size()), 1 / all, 0.01);
  EXPECT_NEAR(times[9] / times[0], std::pow(10, -1.1), 0.01);
}

TEST(Clicks, AreAFunctionOfTheSeedAndOfWhatTheyAreFor) {
  DataConfig config = clicks(longhaul::testing::kGate ? 800 : 4000);
  const auto split = load_data(config);
  EXPECT_EQ(load_data(config)->train->labels, split->train->labels);
  EXPECT_EQ(load_data(config)->train->features, split->train->features);
  EXPECT_NE(split->test->features, split->train->features);
  DataConfig longer = config;  // begins like the shorter one
  longer.samples += 1000;
  std::vector<std::int64_t> begin = load_data(longer)->train->labels;
  begin.resize(config.samples);
  EXPECT_EQ(begin, split->train->labels);
  config.data_seed = 2;
  EXPECT_NE(load_data(config)->train->features, split->train->features);
}

// A test set of another teacher would score nothing: the click rate of a frequent value is that of
// the training set.
TEST(Clicks, TrainingAndTestSetHaveOneTeacher) {
  const auto rates = [](const DataSet& data) {
    std::vector<double> rates;
    for (std::size_t field = 0; field < 26; ++field) {
      double seen = 0, clicked = 0;
      for (std::size_t row = 0; row < data.size(); ++row) {
        if (data.features[row * 26 + field] != float(100 * field)) continue;
        ++seen;
        clicked += double(data.labels[row]);
      }
      rates.push_back(clicked / seen);
    }
    return rates;
  };
  const auto split = load_data(clicks());
  const auto a = rates(*split->train), b = rates(*split->test);
  const auto mean = [](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
  };
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double p = a[i] - mean(a), q = b[i] - mean(b);
    ab += p * q, aa += p * p, bb += q * q;
  }
  EXPECT_GT(ab / std::sqrt(aa * bb), 0.8);
}

std::pair<int, int> pair_of(const DataSet& data, std::size_t row) {
  return {int(data.features[2 * row]), int(data.features[2 * row + 1])};
}

TEST(Ratings, AreHalfStarsOfPairsThatOccurOnceFewItemsHaveMost) {
  const auto split = load_data(ratings());
  EXPECT_EQ(split->train->size(), 1500u);
  EXPECT_EQ(split->test->size(), 300u);
  EXPECT_EQ(split->train->shape, split->test->shape);
  EXPECT_EQ(split->train->shape.tables, (std::vector<std::int64_t>{60, 80}));
  std::set<std::pair<int, int>> seen;
  std::map<int, int> by_item;
  for (const DataSet* data : {split->train.get(), split->test.get()})
    for (std::size_t row = 0; row < data->size(); ++row) {
      const auto [user, item] = pair_of(*data, row);
      EXPECT_TRUE(seen.insert({user, item}).second) << user << " " << item;
      EXPECT_TRUE(user < 60 && item < 80);
      ++by_item[item];
      if (row > 0) EXPECT_LT(pair_of(*data, row - 1), pair_of(*data, row)) << "ordered by user";
      const float stars = data->targets[row];
      EXPECT_TRUE(stars >= 0.5f && stars <= 5 && 2 * stars == std::round(2 * stars)) << stars;
    }
  EXPECT_GT(by_item[0], 2 * by_item[79]);
}

TEST(Ratings, AreAFunctionOfTheSeed) {
  DataConfig config = ratings();
  const auto split = load_data(config);
  EXPECT_EQ(load_data(config)->train->targets, split->train->targets);
  config.data_seed = 2;
  EXPECT_NE(load_data(config)->train->targets, split->train->targets);
}

// As dense as may be: what drawing does not find is filled in.
TEST(Ratings, HalfOfAllPairs) {
  DataConfig config = ratings(10, 20);
  config.samples = 90;
  config.test_samples = 10;
  const auto split = load_data(config);
  EXPECT_EQ(split->train->size() + split->test->size(), 100u);
}

}  // namespace
}  // namespace longhaul::learn
