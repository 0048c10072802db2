#include "longhaul/focus/index.h"

#include <gtest/gtest.h>

namespace longhaul::focus {
namespace {

std::vector<std::uint64_t> clusters_of(Clustering& clustering, std::vector<float> values) {
  std::vector<std::uint64_t> clusters;
  for (const float value : values) clusters.push_back(clustering.add({&value, 1}).cluster);
  return clusters;
}
using Clusters = std::vector<std::uint64_t>;

// docs/focus.md, invariant 1.
TEST(Clustering, GoldenInOneDimension) {
  Clustering clustering(0.5, 100);
  EXPECT_EQ(clusters_of(clustering, {0.f, 0.1f, 0.9f, 1.f, 5.f}), (Clusters{0, 0, 1, 1, 2}));
  EXPECT_NEAR(clustering.mean(0).at(0), 0.05, 1e-7);
  EXPECT_NEAR(clustering.mean(1).at(0), 0.95, 1e-7);
  EXPECT_NEAR(clustering.mean(2).at(0), 5, 1e-7);
  EXPECT_EQ(clustering.size(), 3u);
}

TEST(Clustering, GoldenWithFewActiveClusters) {
  Clustering one(0.5, 1);
  EXPECT_EQ(clusters_of(one, {0.f, 0.1f, 0.9f, 1.f, 5.f}), (Clusters{0, 0, 1, 1, 2}));
  Clustering thrashes(0.5, 1);
  EXPECT_EQ(clusters_of(thrashes, {0.f, 0.9f, 0.1f, 1.f, 5.f}), (Clusters{0, 1, 2, 3, 4}));
  Clustering two(0.5, 2);
  EXPECT_EQ(clusters_of(two, {0.f, 0.9f, 0.1f, 1.f, 5.f}), (Clusters{0, 1, 0, 1, 2}));
}

TEST(Clustering, RetiresTheOneJoinedLongestAgo) {
  Clustering clustering(0.5, 2);
  (void)clusters_of(clustering, {0.f, 3.f, 0.f, 6.f});  // 3 has not been joined since 0 was
  EXPECT_TRUE(clustering.mean(1).empty());
  EXPECT_EQ(clusters_of(clustering, {0.f, 3.f}), (Clusters{0, 3}));
}

TEST(Clustering, WithoutADistanceEveryVectorBeginsACluster) {
  Clustering clustering(0, 1);
  EXPECT_EQ(clusters_of(clustering, {1.f, 1.f, 1.f}), (Clusters{0, 1, 2}));
}

TEST(Clustering, SavedAndLoadedItGoesOn) {
  Clustering saved(0.5, 2), loaded(0.5, 2);
  (void)clusters_of(saved, {0.f, 0.9f, 0.1f});
  Archive out;
  saved.state(out);
  const Buffer bytes = out.take();
  Archive in(bytes);
  loaded.state(in);
  ASSERT_TRUE(in.finish());
  EXPECT_EQ(clusters_of(saved, {1.f, 5.f, 0.1f}), clusters_of(loaded, {1.f, 5.f, 0.1f}));
}

}  // namespace
}  // namespace longhaul::focus
