#include "longhaul/learn/data/facts.h"

#include <cmath>

#include <gmock/gmock.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/base/wire.h"

namespace longhaul::learn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DataSet table(std::vector<std::string> columns, std::vector<float> features) {
  DataSet data;
  data.shape = {{std::int64_t(columns.size())}, 2, Task::classification};
  data.labels.assign(features.size() / columns.size(), 1);
  data.features = std::move(features);
  data.columns = std::move(columns);
  return data;
}

SiteFacts facts(std::string site, const DataSet& data) {
  return {site, site + ".csv", facts_of(data, {})};
}

// Around 1e6 by 1e-3 the squares' last digits are all there is.
TEST(Facts, ScalesOfPartsAreThoseOfTheWhole) {
  Random random(3, {Purpose::data});
  DataConfig config{.standardise = true};
  std::vector<float> all;
  for (int i = 0; i < 3000; ++i)
    all.push_back(i % 2 ? float(random.normal()) : float(1e6 + random.normal()));
  const DataSet whole = table({"x", "y"}, all);
  const auto expected = good(agree(config, {facts("all", whole)}));
  const auto scales = column_scales(whole);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(expected->scales[i].mean, scales[i].mean, 1e-9 * std::abs(scales[i].mean));
    EXPECT_NEAR(expected->scales[i].std, scales[i].std, 1e-9 * scales[i].std);
  }
  for (const std::size_t cut : {2u, 600u, 2998u}) {
    const DataSet a = table({"x", "y"}, {all.begin(), all.begin() + std::ptrdiff_t(cut)});
    const DataSet b = table({"x", "y"}, {all.begin() + std::ptrdiff_t(cut), all.end()});
    const auto found = good(agree(config, {facts("a", a), facts("b", b)}));
    EXPECT_EQ(found->training, 1500u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found->scales[i].mean, expected->scales[i].mean);
      EXPECT_EQ(found->scales[i].std, expected->scales[i].std);
    }
  }
}

TEST(Facts, ColumnsAreThoseOfTheFirstSiteByName) {
  const DataSet first = table({"x", "y"}, {1, 10, 3, 30});
  DataSet second = table({"y", "x"}, {50, 5});
  DataConfig config{.standardise = true};
  const auto all = good(agree(config, {facts("a", first), facts("b", second)}));
  EXPECT_EQ(all->scales[0].mean, 3);
  EXPECT_EQ(all->scales[1].mean, 30);
  bring_in_line(second, *all);
  EXPECT_THAT(second.columns, ElementsAre("x", "y"));
  EXPECT_FLOAT_EQ(second.features[0], float(2 / std::sqrt(8.0 / 3)));
  EXPECT_FLOAT_EQ(second.features[0], second.features[1]);
}

TEST(Facts, MissingCellsAreFilledByTheMeanOfAllSites) {
  DataSet first = table({"x"}, {1, NAN, NAN}), second = table({"x"}, {4});
  DataConfig config{.missing = "mean", .standardise = true};
  const auto all = good(agree(config, {facts("a", first), facts("b", second)}));
  EXPECT_THAT(all->means, ElementsAre(2.5));
  bring_in_line(first, *all);
  bring_in_line(second, *all);
  // 1, 2.5, 2.5, 4: as if the filled numbers had been there.
  const float std = std::sqrt(1.125f);
  EXPECT_FLOAT_EQ(first.features[0], -1.5f / std);
  EXPECT_EQ(first.features[1], 0);
  EXPECT_FLOAT_EQ(second.features[0], 1.5f / std);
  const auto none = agree(config, {facts("a", table({"x"}, {NAN}))});
  EXPECT_THAT(none.error().what, HasSubstr("column 'x' is missing in all samples"));
}

TEST(Facts, OtherColumnsAreNamedWithBothSites) {
  EXPECT_THAT(failure(agree({}, {facts("turin", table({"x", "y"}, {1, 2})),
                                 facts("lima", table({"x", "z"}, {1, 2}))}))
                  .what,
              AllOf(HasSubstr("site turin (turin.csv) and site lima (lima.csv)"),
                    HasSubstr("the second lacks 'y'"), HasSubstr("the first lacks 'z'")));
}

TEST(Facts, ASiteWithAColumnInOtherUnitsIsNamed) {
  const auto sites = [](float of_b) {
    return std::vector{facts("a", table({"x"}, {1, 2})), facts("b", table({"x"}, {of_b, 1})),
                       facts("c", table({"x"}, {-3, 1}))};
  };
  const auto far = good(agree({}, sites(-2000)));
  EXPECT_THAT(far->warnings, ElementsAre(HasSubstr("site b: column 'x' reaches 2e+03, at the other "
                                                   "sites 3")));
  EXPECT_THAT(agree({}, sites(200))->warnings, ElementsAre());
}

TEST(Facts, AreTheSameBehindTheWire) {
  const TableFacts mine = facts_of(table({"x", "y"}, {1, NAN, 3, 4}), table({"x", "y"}, {5, 6}));
  const auto theirs = good(from_wire<TableFacts>(to_wire(mine)));
  EXPECT_EQ(theirs->columns, mine.columns);
  EXPECT_EQ(theirs->training, 2u);
  EXPECT_EQ(theirs->test, 1u);
  EXPECT_EQ(theirs->numbers[0].sum.value(), 4);
  EXPECT_EQ(theirs->numbers[1].missing, 1u);
  EXPECT_THAT(theirs->labels, ElementsAre(0, 2));
}

// --- standardise

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
