#include "longhaul/learn/data/dataset.h"

#include <gmock/gmock.h>

namespace longhaul::learn {
namespace {

using ::testing::ElementsAre;

DataSet two_images() {
  DataSet data;
  data.shape = {{2, 1, 2}, 3, Task::classification};
  data.labels = {2, 0};
  data.set_pixels({0, 255, 51, 102, 255, 0, 0, 51}, std::vector{0.5, 0.0}, std::vector{0.25, 0.5});
  return data;
}

std::vector<float> row(const DataSet& data, std::size_t i) {
  std::vector<float> out(data.shape.width());
  data.copy_row(i, out);
  return out;
}

TEST(DataSet, PixelsAreNormalisedByTheirChannel) {
  const DataSet data = two_images();
  EXPECT_EQ(data.size(), 2u);
  EXPECT_THAT(row(data, 0), ElementsAre(-2.0f, 2.0f, 0.4f, 0.8f));
  EXPECT_THAT(row(data, 1), ElementsAre(2.0f, -2.0f, 0.0f, 0.4f));
}

TEST(DataSet, FloatsComeBackAsTheyAre) {
  DataSet data;
  data.shape = {{3}, 2, Task::regression};
  data.features = {1, 2, 3, 4, 5, 6};
  data.targets = {7, 8, 9, 10};
  EXPECT_EQ(data.size(), 2u);
  EXPECT_THAT(row(data, 1), ElementsAre(4, 5, 6));
}

TEST(DataSet, TakesRowsAndAppends) {
  const DataSet data = two_images();
  DataSet taken = take_rows(data, std::vector<std::uint32_t>{1, 0, 1});
  EXPECT_THAT(taken.labels, ElementsAre(0, 2, 0));
  EXPECT_EQ(row(taken, 1), row(data, 0));
  append(taken, data);
  EXPECT_THAT(taken.labels, ElementsAre(0, 2, 0, 2, 0));
  EXPECT_EQ(row(taken, 4), row(data, 1));
  EXPECT_EQ(taken.shape, data.shape);
}

TEST(DataSetDeathTest, RowsAndSizesAreChecked) {
  const DataSet data = two_images();
  std::vector<float> out(4);
  EXPECT_DEATH(data.copy_row(2, out), "check failed");
  EXPECT_DEATH(data.copy_row(0, std::span(out).first(3)), "check failed");
}

}  // namespace
}  // namespace longhaul::learn
