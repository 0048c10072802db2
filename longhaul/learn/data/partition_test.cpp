#include "longhaul/learn/data/partition.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "longhaul/base/testing/effort.h"

namespace longhaul::learn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `samples` samples whose labels take turns.
DataSet labelled(std::size_t samples, std::int64_t classes) {
  DataSet data;
  data.shape = {{1}, classes, Task::classification};
  data.features.resize(samples);
  for (std::size_t i = 0; i < samples; ++i) data.labels.push_back(std::int64_t(i) % classes);
  return data;
}

DataConfig partition_config(std::string kind) {
  DataConfig config{.partition = std::move(kind)};
  return config;
}

std::vector<std::size_t> sizes_of(const Shards& shards) {
  std::vector<std::size_t> sizes;
  for (const auto& shard : shards) sizes.push_back(shard.size());
  return sizes;
}

// Every sample held once, every site at least one, each shard ascending.
bool exactly_once(const Shards& shards, std::size_t samples) {
  std::vector<std::uint32_t> all;
  for (const auto& shard : shards) {
    if (shard.empty() || !std::ranges::is_sorted(shard)) return false;
    all.insert(all.end(), shard.begin(), shard.end());
  }
  std::ranges::sort(all);
  std::vector<std::uint32_t> expected(samples);
  std::iota(expected.begin(), expected.end(), 0u);
  return all == expected;
}

std::string shards_error(const Result<Shards>& shards) {
  return shards ? "no error" : shards.error().what;
}

RC_GTEST_PROP(Partition, EverySampleExactlyOnce, ()) {
  const auto sites = *rc::gen::inRange<std::size_t>(1, 12);
  const auto classes = *rc::gen::inRange<std::int64_t>(2, 15);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const std::string kind =
      *rc::gen::element<std::string>("iid", "dirichlet", "shards", "by_label", "sizes");
  DataConfig config = partition_config(kind);
  config.alpha = *rc::gen::element(1e-6, 0.01, 0.1, 0.5, 1.0, 100.0);
  config.shards = *rc::gen::inRange<std::uint32_t>(1, 4);
  for (std::size_t i = 0; i < sites; ++i)
    config.sizes.push_back(double(*rc::gen::inRange(1, 1000)) / 7);
  const std::size_t least = std::max(sites * config.shards, std::size_t(classes));
  const auto samples = *rc::gen::inRange(least, least + 200);
  const DataSet data = labelled(samples, classes);
  const auto shards = partition(data, sites, config, seed);
  if (kind == "by_label" && sites > std::size_t(classes)) {
    RC_ASSERT(!shards);
    return;
  }
  RC_ASSERT(bool(shards));
  RC_ASSERT(shards->size() == sites);
  RC_ASSERT(exactly_once(*shards, samples));
  RC_ASSERT(*shards == *partition(data, sites, config, seed));
}

TEST(Partition, AnotherSeedAnotherPartition) {
  const DataSet data = labelled(500, 10);
  for (const char* kind : {"iid", "dirichlet", "shards"}) {
    const DataConfig config = partition_config(kind);
    EXPECT_NE(*partition(data, 4, config, 1), *partition(data, 4, config, 2)) << kind;
  }
}

TEST(Partition, IidIsEqualPartsOfAllLabels) {
  const DataSet data = labelled(1003, 10);
  const Shards shards = *partition(data, 4, partition_config("iid"), 7);
  EXPECT_THAT(sizes_of(shards), ElementsAre(251, 251, 251, 250));
  for (const auto& row : label_counts(data, shards))
    for (const std::uint64_t count : row) EXPECT_NEAR(double(count), 25, 15);
}

// The smaller alpha, the further from equal shares: mean over labels of the largest site's share.
TEST(Partition, DirichletIsSkewedByAlpha) {
  constexpr std::uint64_t kSeeds = longhaul::testing::cases(10),
                          kOfEach = longhaul::testing::kGate ? 500 : 2000;
  const DataSet data = labelled(kOfEach * 10, 10);
  auto largest_share = [&](double alpha) {
    DataConfig config = partition_config("dirichlet");
    config.alpha = alpha;
    double mean = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto counts = label_counts(data, *partition(data, 4, config, seed));
      for (std::size_t label = 0; label < 10; ++label) {
        std::uint64_t most = 0;
        for (const auto& row : counts) most = std::max(most, row[label]);
        mean += double(most) / double(kOfEach) / 10 / double(kSeeds);
      }
    }
    return mean;
  };
  EXPECT_GT(largest_share(0.05), 0.85);
  EXPECT_LT(largest_share(0.5), 0.85);
  EXPECT_GT(largest_share(0.5), 0.5);
  EXPECT_LT(largest_share(1000), 0.3);
}

// All of a label to one of 8 sites, and still nobody is without a sample.
TEST(Partition, DirichletLeavesNoSiteEmpty) {
  const DataSet data = labelled(9, 2);
  DataConfig config = partition_config("dirichlet");
  config.alpha = 1e-9;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto shards = partition(data, 8, config, seed);
    ASSERT_TRUE(shards);
    EXPECT_TRUE(exactly_once(*shards, 9)) << seed;
  }
}

// 5,000 of each of ten labels, as CIFAR-10 has; in the gate a tenth of it.
TEST(Partition, SkewedIsTheDegreeAtHomeAndTheRestEverywhere) {
  constexpr std::size_t kOfEach = longhaul::testing::kGate ? 500 : 5000;
  const DataSet data = labelled(10 * kOfEach, 10);
  DataConfig config = partition_config("skewed");
  EXPECT_THAT(sizes_of(*partition(data, 2, config, 1)), ElementsAre(5 * kOfEach, 5 * kOfEach));
  EXPECT_THAT(sizes_of(*partition(data, 3, config, 1)),
              ElementsAre(4 * kOfEach, 3 * kOfEach, 3 * kOfEach));
  for (const auto& row : label_counts(data, *partition(data, 5, config, 1)))
    EXPECT_EQ(std::ranges::count(row, kOfEach), 2);
  config.degree = 0.8;
  const Shards shards = *partition(data, 5, config, 1);
  EXPECT_TRUE(exactly_once(shards, 10 * kOfEach));
  const auto counts = label_counts(data, shards);
  for (std::size_t site = 0; site < 5; ++site)
    for (std::size_t label = 0; label < 10; ++label)
      EXPECT_EQ(counts[site][label], label % 5 == site ? kOfEach * 21 / 25 : kOfEach / 25);
  config.degree = 0;
  for (const auto& row : label_counts(data, *partition(data, 5, config, 1)))
    EXPECT_EQ(std::ranges::count(row, kOfEach / 5), 10);
  config.degree = 1;
  EXPECT_THAT(shards_error(partition(data, 11, config, 1)), HasSubstr("site 10 would hold"));
}

TEST(Partition, Skewed80GivesAFifthToThePartnerAndRefusesAnOddNumber) {
  // Labels do not go by the number of the item here.
  DataSet data = labelled(1000, 10);
  for (std::size_t i = 0; i < 1000; ++i) data.labels[i] = std::int64_t(i / 10 % 10);
  const auto config = partition_config("skewed_80");
  const Shards shards = *partition(data, 4, config, 1);
  EXPECT_TRUE(exactly_once(shards, 1000));
  const auto counts = label_counts(data, shards);
  EXPECT_EQ(counts[0][4], 80u);
  EXPECT_EQ(counts[1][4], 20u);
  EXPECT_EQ(counts[3][7], 80u);
  EXPECT_EQ(counts[2][7], 20u);
  EXPECT_THAT(shards_error(partition(data, 5, config, 1)), HasSubstr("degree = 0.8"));
}

TEST(Partition, ShardsHoldFewLabels) {
  const DataSet data = labelled(1000, 10);
  DataConfig config = partition_config("shards");
  config.shards = 2;
  const Shards shards = *partition(data, 5, config, 3);
  EXPECT_THAT(sizes_of(shards), ElementsAre(200, 200, 200, 200, 200));
  for (const auto& row : label_counts(data, shards)) {
    EXPECT_EQ(std::ranges::count(row, 0u), 8);
    EXPECT_EQ(std::ranges::count(row, 100u), 2);
  }
  EXPECT_THAT(shards_error(partition(labelled(9, 2), 5, config, 3)),
              HasSubstr("5 sites x 2 shards"));
}

TEST(Partition, ByLabelIsLabelModSites) {
  const DataSet data = labelled(35, 7);
  const Shards shards = *partition(data, 3, partition_config("by_label"), 3);
  EXPECT_THAT(label_counts(data, shards),
              ElementsAre(ElementsAre(5, 0, 0, 5, 0, 0, 5), ElementsAre(0, 5, 0, 0, 5, 0, 0),
                          ElementsAre(0, 0, 5, 0, 0, 5, 0)));
  EXPECT_THAT(shards_error(partition(data, 8, partition_config("by_label"), 3)),
              HasSubstr("only 7 labels"));
  DataSet gap = labelled(10, 3);
  std::ranges::replace(gap.labels, 1, 0);
  EXPECT_THAT(shards_error(partition(gap, 3, partition_config("by_label"), 3)),
              HasSubstr("label of site 1"));
}

TEST(Partition, SizesAreSharesOrCounts) {
  const DataSet data = labelled(100, 10);
  DataConfig config = partition_config("sizes");
  config.sizes = {0.5, 0.3, 0.2};
  EXPECT_THAT(sizes_of(*partition(data, 3, config, 3)), ElementsAre(50, 30, 20));
  config.sizes = {1, 1, 1};
  EXPECT_THAT(sizes_of(*partition(data, 3, config, 3)), ElementsAre(34, 33, 33));
  config.sizes = {1e9, 1, 2};
  EXPECT_THAT(sizes_of(*partition(data, 3, config, 3)), ElementsAre(98, 1, 1));
  config.sizes = {1, 2};
  EXPECT_THAT(shards_error(partition(data, 3, config, 3)), HasSubstr("expected 3 numbers"));
  config.sizes = {1, 2, -1};
  EXPECT_THAT(shards_error(partition(data, 3, config, 3)), HasSubstr("above 0"));
}

TEST(Partition, BlocksKeepTheOrderOfTheFile) {
  const DataSet data = labelled(7, 2);
  EXPECT_EQ(*partition(data, 3, {.partition = "blocks"}, 1), (Shards{{0, 1, 2}, {3, 4}, {5, 6}}));
}

TEST(Partition, WhatCannotBeDividedIsAnError) {
  EXPECT_THAT(shards_error(partition(labelled(3, 2), 4, partition_config("iid"), 1)),
              HasSubstr("4 sites"));
  EXPECT_THAT(shards_error(partition(labelled(9, 2), 4, partition_config("local"), 1)),
              HasSubstr("[[site]]"));
  EXPECT_THAT(shards_error(partition(labelled(9, 2), 4, partition_config("even"), 1)),
              HasSubstr("\"even\" is unknown"));
  DataSet numbers;
  numbers.shape = {{1}, 1, Task::regression};
  numbers.features = numbers.targets = {5, 3, 4, 1, 2, 6};
  for (const char* kind : {"dirichlet", "by_label"})
    EXPECT_THAT(shards_error(partition(numbers, 2, partition_config(kind), 1)),
                HasSubstr("numbers to fit"));
  DataConfig config = partition_config("shards");
  config.shards = 1;
  const Shards shards = *partition(numbers, 2, config, 1);
  EXPECT_EQ(std::set(shards.begin(), shards.end()),
            (std::set<std::vector<std::uint32_t>>{{1, 3, 4}, {0, 2, 5}}));
  EXPECT_THAT(label_counts(numbers, shards), ElementsAre(ElementsAre(3), ElementsAre(3)));
}

}  // namespace
}  // namespace longhaul::learn
