#include "longhaul/sync/grouping/groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"

namespace longhaul::sync::grouping {
namespace {

using Groups = std::vector<std::vector<Rank>>;

// Three kinds of data, four workers each: rank r is of kind r % 3. Not of one length.
std::map<Rank, std::vector<float>> planted(std::uint64_t seed, const std::vector<Rank>& names) {
  Random random(seed, Stream{});
  std::vector<std::vector<float>> kinds(3, std::vector<float>(64));
  for (auto& kind : kinds)
    for (float& v : kind) v = float(random.normal());
  std::map<Rank, std::vector<float>> sketches;
  for (std::size_t i = 0; i < 12; ++i) {
    const float length = float(1 + i);
    for (float v : kinds[i % 3])
      sketches[names[i]].push_back(length * (v + 0.4f * float(random.normal())));
  }
  return sketches;
}

TEST(Groups, Invariant4_PlantedOnesAreFoundWhateverTheNumbering) {
  for (std::uint64_t seed = 1; seed <= longhaul::testing::cases(20); ++seed) {
    std::vector<Rank> names{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const Groups found = group_by_sketch(planted(seed, names), 0, seed, 0);
    EXPECT_EQ(found, (Groups{{0, 3, 6, 9}, {1, 4, 7, 10}, {2, 5, 8, 11}})) << seed;
    for (std::uint32_t k : {0u, 2u, 5u}) {  // also where the data do not say
      const Groups plain =
          group_by_sketch(planted(seed, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), k, seed, 0);
      Random(seed, Stream{}).shuffle(std::span(names));
      Groups renamed = plain;
      for (auto& group : renamed) {
        for (Rank& rank : group) rank = names[rank];
        std::sort(group.begin(), group.end());
      }
      std::sort(renamed.begin(), renamed.end());
      EXPECT_EQ(group_by_sketch(planted(seed, names), k, seed, 0), renamed) << seed << " " << k;
    }
  }
}

TEST(Groups, AlikeDataAreOneGroup) {
  std::map<Rank, std::vector<float>> sketches;
  Random random(1, Stream{});
  for (Rank rank = 0; rank < 12; ++rank)
    for (int k = 0; k < 64; ++k) sketches[rank].push_back(float(random.normal()));
  EXPECT_EQ(group_by_sketch(sketches, 0, 1, 0).size(), 1u);
  for (auto& [rank, sketch] : sketches) sketch = std::vector<float>(64, 1);
  EXPECT_EQ(group_by_sketch(sketches, 0, 1, 0).size(), 1u);
  EXPECT_LE(group_by_sketch(sketches, 3, 1, 0).size(), 3u);
}

TEST(Groups, ASketchOfZerosIsAloneUnlessAllAre) {
  const auto sketches = planted(1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  auto with = sketches;
  with[20] = std::vector<float>(64);
  const Groups found = group_by_sketch(with, 0, 1, 0);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found.back(), std::vector<Rank>{20});
  EXPECT_EQ(group_by_sketch({{4, {0, 0}}, {2, {0, 0}}}, 0, 1, 0), (Groups{{2, 4}}));
  EXPECT_EQ(group_by_sketch({{4, {}}, {2, {}}}, 3, 1, 0), (Groups{{2, 4}}));  // phantoms
}

TEST(Silhouette, OfAHandMadeCase) {
  const std::vector<Point> points{{0}, {2}, {10}, {12}, {30}};
  // Of 0: a = 2, b = 11; of 2: a = 2, b = 9; of 10: 2, 9; of 12: 2, 11; of 30: alone.
  const double expected = (9.0 / 11 + 7.0 / 9 + 7.0 / 9 + 9.0 / 11) / 5;
  EXPECT_NEAR(silhouette(points, {0, 0, 1, 1, 2}), expected, 1e-12);
}

TEST(Components, AreTheFewestThatHoldTheVariance) {
  // Unit vectors in the plane, two by two: one direction separates them.
  const auto scores = component_scores({{1, 0.01}, {1, -0.01}, {-1, 0.01}, {-1, -0.01}});
  ASSERT_EQ(scores[0].size(), 1u);
  double largest = 0;
  for (const Point& p : scores)
    if (std::abs(p[0]) > std::abs(largest)) largest = p[0];
  EXPECT_NEAR(largest, 1, 1e-3);
  EXPECT_NEAR(scores[0][0], scores[1][0], 1e-9);
  EXPECT_NEAR(scores[0][0], -scores[2][0], 1e-9);
  std::vector<Point> many(20, Point(20));
  for (std::size_t i = 0; i < 20; ++i) many[i][i] = 1;
  EXPECT_EQ(component_scores(many)[0].size(), kMostComponents);
}

TEST(Quota, IsTheShareRoundedUp) {
  EXPECT_EQ(quota_of(0.25, 4), 1u);
  EXPECT_EQ(quota_of(0.25, 5), 2u);
  EXPECT_EQ(quota_of(1, 5), 5u);
  EXPECT_EQ(quota_of(0.25, 0), 1u);
  EXPECT_EQ(quota_of(0.28, 25), 7u);  // 0.28 * 25 is a little more than 7
}

TEST(Lateness, Invariant6_TheOlderTheLess) {
  EXPECT_EQ(lateness_weight(0), 1);
  EXPECT_EQ(lateness_weight(3), 0.5);
  for (std::uint64_t tau = 0; tau < 100; ++tau)
    EXPECT_LT(lateness_weight(tau + 1), lateness_weight(tau));
}

}  // namespace
}  // namespace longhaul::sync::grouping
