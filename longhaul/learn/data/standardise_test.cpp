#include "longhaul/learn/data/facts.h"

#include <cmath>

#include <gmock/gmock.h>

namespace longhaul::learn {
namespace {

using ::testing::ElementsAre;

DataSet table_of(std::int64_t width, std::vector<float> features) {
  DataSet data;
  data.shape = {{width}, 2, Task::classification};
  data.labels.assign(features.size() / std::size_t(width), 0);
  data.features = std::move(features);
  return data;
}

TEST(Standardise, MeanZeroAndDeviationOneOfEachColumn) {
  DataSet data = table_of(2, {1, 1000, 3, 3000, 5, 5000});
  const auto scales = column_scales(data);
  EXPECT_DOUBLE_EQ(scales[0].mean, 3);
  EXPECT_DOUBLE_EQ(scales[1].mean, 3000);
  EXPECT_DOUBLE_EQ(scales[0].std, std::sqrt(8.0 / 3));
  standardise(data, scales);
  const float one = float(2 / std::sqrt(8.0 / 3));
  EXPECT_THAT(data.features, ElementsAre(-one, -one, 0, 0, one, one));
}

// Whose mean, rounded, is not the number itself.
TEST(Standardise, AConstantColumnIsZeroAlsoWhereTheTestSetDiffers) {
  std::vector<float> same;
  for (int i = 0; i < 7; ++i) same.push_back(0.1f);
  DataSet train = table_of(1, same), test = table_of(1, {0.1f, 1e30f});
  const auto scales = column_scales(train);
  EXPECT_EQ(scales[0].std, 0);
  standardise(train, scales);
  standardise(test, scales);
  EXPECT_THAT(train.features, ::testing::Each(0.0f));
  EXPECT_THAT(test.features, ElementsAre(0, 0));
}

TEST(Standardise, TheLargestFloatsStayFinite) {
  DataSet data = table_of(1, {3e38f, -3e38f, 3e38f});
  const auto scales = column_scales(data);
  standardise(data, scales);
  for (const float value : data.features) EXPECT_TRUE(std::isfinite(value)) << value;
  EXPECT_NEAR(data.features[0], std::sqrt(0.5), 1e-6);
}

}  // namespace
}  // namespace longhaul::learn
