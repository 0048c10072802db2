#include "longhaul/learn/data/clicks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "longhaul/base/testing/effort.h"

namespace longhaul::learn {
namespace {

const ClicksOptions kStream{.fields = 26, .values = 100, .samples = 4000};

TEST(Clicks, OfEachFieldASampleHasOneValue) {
  const DataSet data = make_clicks(kStream);
  ASSERT_EQ(data.size(), 4000u);
  EXPECT_EQ(data.shape.outputs, 2);
  EXPECT_EQ(data.shape.tables, std::vector<std::int64_t>(26, 2600));
  for (std::size_t i = 0; i < data.features.size(); ++i)
    ASSERT_EQ(std::size_t(data.features[i]) / 100, i % 26) << i;
}

TEST(Clicks, TheFirstValueIsFrequentByZipfsLaw) {
  const DataSet data = make_clicks(kStream);
  std::map<std::size_t, double> times;
  for (const float row : data.features) ++times[std::size_t(row) % 100];
  double all = 0;
  for (int k = 1; k <= 100; ++k) all += std::pow(k, -1.1);
  EXPECT_NEAR(times[0] / double(data.features.size()), 1 / all, 0.01);
  EXPECT_NEAR(times[9] / times[0], std::pow(10, -1.1), 0.01);
}

TEST(Clicks, AreAFunctionOfTheSeedAndOfWhatTheyAreFor) {
  ClicksOptions stream = kStream;
  if (longhaul::testing::kGate) stream.samples = 800;
  ClicksOptions other = stream, test = stream;
  other.seed = 2;
  test.test = true;
  const DataSet data = make_clicks(stream);
  EXPECT_EQ(make_clicks(stream).labels, data.labels);
  EXPECT_EQ(make_clicks(stream).features, data.features);
  EXPECT_NE(make_clicks(other).features, data.features);
  EXPECT_NE(make_clicks(test).features, data.features);
  // A longer stream begins like a shorter one.
  ClicksOptions longer = stream;
  longer.samples = stream.samples + 1000;
  DataSet begin = make_clicks(longer);
  begin.labels.resize(stream.samples);
  EXPECT_EQ(begin.labels, data.labels);
}

// A test set of another teacher would score nothing: the click rate of a frequent value is that of
// the training set.
TEST(Clicks, TrainingAndTestSetHaveOneTeacher) {
  ClicksOptions test = kStream;
  test.test = true;
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
  const auto a = rates(make_clicks(kStream)), b = rates(make_clicks(test));
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

}  // namespace
}  // namespace longhaul::learn
