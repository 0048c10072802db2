#include "longhaul/learn/data/ratings.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace longhaul::learn {
namespace {

const RatingsOptions kSmall{.users = 60, .items = 80, .samples = 1500, .test_samples = 300};

std::pair<int, int> pair_of(const DataSet& data, std::size_t row) {
  return {int(data.features[2 * row]), int(data.features[2 * row + 1])};
}

TEST(Ratings, AreHalfStarsOfPairsThatOccurOnce) {
  const Ratings made = make_ratings(kSmall);
  EXPECT_EQ(made.train.size(), 1500u);
  EXPECT_EQ(made.test.size(), 300u);
  EXPECT_EQ(made.train.shape, made.test.shape);
  EXPECT_EQ(made.train.shape.tables, (std::vector<std::int64_t>{60, 80}));
  std::set<std::pair<int, int>> seen;
  for (const DataSet* data : {&made.train, &made.test})
    for (std::size_t row = 0; row < data->size(); ++row) {
      const auto [user, item] = pair_of(*data, row);
      EXPECT_TRUE(seen.insert({user, item}).second) << user << " " << item;
      EXPECT_TRUE(user < 60 && item < 80);
      if (row > 0) {
        EXPECT_LT(pair_of(*data, row - 1), pair_of(*data, row)) << "ordered by user";
      }
      const float stars = data->targets[row];
      EXPECT_TRUE(stars >= 0.5f && stars <= 5 && 2 * stars == std::round(2 * stars)) << stars;
    }
}

TEST(Ratings, AreAFunctionOfTheSeed) {
  EXPECT_EQ(make_ratings(kSmall).train.targets, make_ratings(kSmall).train.targets);
  RatingsOptions other = kSmall;
  other.seed = 2;
  EXPECT_NE(make_ratings(other).train.targets, make_ratings(kSmall).train.targets);
}

// Without noise and with half stars rounded away, users and items explain what varies.
TEST(Ratings, AFewItemsHaveMostOfThem) {
  const Ratings made = make_ratings(kSmall);
  std::map<int, int> by_item;
  for (std::size_t row = 0; row < made.train.size(); ++row)
    ++by_item[pair_of(made.train, row).second];
  EXPECT_GT(by_item[0], 2 * by_item[79]);
}

// As dense as may be: what drawing does not find is filled in.
TEST(Ratings, HalfOfAllPairs) {
  const Ratings made =
      make_ratings({.users = 10, .items = 20, .samples = 90, .test_samples = 10, .seed = 3});
  EXPECT_EQ(made.train.size() + made.test.size(), 100u);
}

}  // namespace
}  // namespace longhaul::learn
