#include "longhaul/overlay/reduction.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/archived.h"

namespace longhaul::overlay {
namespace {

const std::vector<double> kWeights{1, 2, 0, 0.5};
const std::vector<std::vector<float>> kParts{{1e8f, 1}, {-5e7f, 2}, {}, {1, 3}};

std::vector<float> reduce(std::vector<std::uint32_t> order) {
  Reduction reduction;
  for (const std::uint32_t member : order) {
    EXPECT_FALSE(reduction.has(member));
    reduction.add(member, kParts[member], kWeights);
    EXPECT_TRUE(reduction.has(member));
  }
  EXPECT_TRUE(reduction.advance(kWeights));
  return reduction.mean(3.5);
}

TEST(Reduction, IsTheWeightedMeanInRankOrderWhateverComesFirst) {
  const std::vector<float> mean = reduce({0, 1, 3});
  EXPECT_EQ(mean[0], float(0.5 / 3.5));
  EXPECT_EQ(mean[1], float(6.5 / 3.5));
  std::vector<std::uint32_t> order{0, 1, 3};
  while (std::next_permutation(order.begin(), order.end())) EXPECT_EQ(reduce(order), mean);
}

TEST(Reduction, WaitsForWhoeverHasNotBeenHeardOf) {
  std::vector<double> weights{kUnknownWeight, 1};
  Reduction reduction;
  reduction.add(1, {7}, weights);
  EXPECT_FALSE(reduction.advance(weights));
  weights[0] = 0;
  EXPECT_TRUE(reduction.advance(weights));
  EXPECT_EQ(reduction.mean(1), std::vector<float>{7});
}

TEST(Reduction, KeepsOnlyPartsThatCameBeforeTheirTurn) {
  const std::vector<double> weights(10, 1.0);
  Reduction reduction;
  for (std::uint32_t member = 1; member < 10; ++member) reduction.add(member, {1}, weights);
  EXPECT_EQ(reduction.waiting(), 9u);
  reduction.add(0, {1}, weights);
  EXPECT_EQ(reduction.waiting(), 0u);
}

TEST(Reduction, R2_3_EqualPartsComeBackBitEqual) {
  Random random(1, {});
  for (std::uint32_t members : {1u, 3u, 7u, 1000u}) {
    std::vector<double> weights(members);
    for (double& weight : weights) weight = 1e-3 + 1000 * random.uniform();
    std::vector<float> part(16);
    for (float& v : part) v = float(random.normal() * 1e-20);
    Reduction reduction;
    for (std::uint32_t member = 0; member < members; ++member) reduction.add(member, part, weights);
    EXPECT_EQ(reduction.mean(std::accumulate(weights.begin(), weights.end(), 0.0)), part);
  }
}

// Of [3, 0, 0], [0, 6, 0] and [5, 9, 0] with weights 1, 2 and 0.5.
TEST(Reduction, OfSendersDividesByTheWeightsOfThoseThatSentAValue) {
  const std::vector<double> weights{1, 2, 0, 0.5};
  const std::vector<std::vector<float>> parts{{3, 0, 0}, {0, 6, 0}, {}, {5, 9, 0}};
  for (const bool saved : {false, true}) {
    Reduction reduction(true);
    for (const std::uint32_t member : {3u, 0u, 1u}) {
      reduction.add(member, parts[member], weights);
      if (!saved) continue;
      Reduction loaded;
      ASSERT_TRUE(longhaul::testing::copy_state(reduction, loaded));
      reduction = loaded;
    }
    EXPECT_EQ(reduction.mean(3.5), (std::vector<float>{5.5f / 1.5f, 16.5f / 2.5f, 0}));
  }
}

// A checkpoint in which the weights of the senders are missing.
TEST(Reduction, OfSendersWithoutTheirWeightsIsRefused) {
  bool of_senders = true;
  std::uint32_t next = 1;
  std::vector<double> sum{1}, sent;
  std::map<std::uint32_t, std::vector<float>> waiting;
  Archive out;
  out(of_senders, next, sum, sent, waiting);
  Reduction reduction;
  EXPECT_FALSE(longhaul::testing::load(reduction, out.take()));
}

}  // namespace
}  // namespace longhaul::overlay
