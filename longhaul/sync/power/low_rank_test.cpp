#include "longhaul/sync/power/low_rank.h"

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::sync::power {
namespace {

// A matrix of 6 x 5, a bias, a matrix too small to be factored, a kernel of 4 x (3 x 2), a buffer.
Layout mixed_layout() {
  return Layout({{"a", {0, 30}, {6, 5}},
                 {"bias", {30, 6}, {6}},
                 {"small", {36, 4}, {2, 2}},
                 {"kernel", {40, 24}, {4, 3, 2}},
                 {"mean", {64, 2}, {2}, LayerRange::Role::buffer}});
}

std::vector<float> drawn(std::size_t count, std::uint64_t seed) {
  Random random(seed, {Purpose::test});
  std::vector<float> values(count);
  for (float& value : values) value = float(random.normal());
  return values;
}

TEST(LowRank, FactorsWhatItMakesSmallerAndKeepsTheRest) {
  const LowRank one(mixed_layout(), 1);
  EXPECT_EQ(one.left_size(), 6u + 4 + 6 + 4);
  EXPECT_EQ(one.right_size(), 5u + 6);
  const LowRank three(mixed_layout(), 3);  // 33 and 30 numbers are no fewer than 30 and 24
  EXPECT_EQ(three.left_size(), 64u);
  EXPECT_EQ(three.right_size(), 0u);
  const auto delta = drawn(64, 1);
  auto p = three.left(delta, {});
  three.orthonormalise(p);
  EXPECT_EQ(three.product(p, {}), delta);
}

TEST(LowRank, ColumnsOfPBecomeOrthonormal) {
  const LowRank two(mixed_layout(), 2);
  const auto delta = drawn(64, 1);
  auto p = two.left(delta, drawn(two.right_size(), 2));
  two.orthonormalise(p);
  double dots[2][2] = {};
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t a = 0; a < 2; ++a)
      for (std::size_t b = 0; b < 2; ++b) dots[a][b] += double(p[2 * i + a]) * double(p[2 * i + b]);
  EXPECT_NEAR(dots[0][0], 1, 1e-6);
  EXPECT_NEAR(dots[1][1], 1, 1e-6);
  EXPECT_NEAR(dots[0][1], 0, 1e-6);
}

// a matrix of rank r is its product after one exchange.
TEST(LowRank, AMatrixOfItsRankIsExact) {
  const LowRank two(mixed_layout(), 2);
  const auto u = drawn(two.left_size(), 3), v = drawn(two.right_size(), 4);
  const auto delta = two.product(u, v);  // of rank 2, and what is not factored
  auto p = two.left(delta, drawn(two.right_size(), 5));
  two.orthonormalise(p);
  const auto back = two.product(p, two.right(delta, p));
  for (std::size_t i = 0; i < delta.size(); ++i) EXPECT_NEAR(back[i], delta[i], 1e-5) << i;
}

// Without the columns that its P lost a matrix of a lower rank is exact, too; a Q of zeros would
// stay so and is drawn anew.
TEST(LowRank, AColumnThatDependsOnOthersIsDroppedAndDrawnAnew) {
  const LowRank one(mixed_layout(), 1), two(mixed_layout(), 2);
  const auto delta = one.product(drawn(one.left_size(), 3), drawn(one.right_size(), 4));
  auto p = two.left(delta, drawn(two.right_size(), 5));
  two.orthonormalise(p);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(p[2 * i + 1], 0) << i;
  auto q = two.right(delta, p);
  const auto back = two.product(p, q);
  for (std::size_t i = 0; i < delta.size(); ++i) EXPECT_NEAR(back[i], delta[i], 1e-5) << i;
  const float kept = q[0];
  two.fill_empty(q, [] { return 7.0; });
  EXPECT_EQ(q[1], 7);
  EXPECT_EQ(q[0], kept);
}

// the factors of a mean are the means of factors.
TEST(LowRank, FactorsAreLinear) {
  const LowRank two(mixed_layout(), 2);
  const auto a = drawn(64, 1), b = drawn(64, 2), q = drawn(two.right_size(), 3);
  std::vector<float> mean(64);
  for (std::size_t i = 0; i < 64; ++i) mean[i] = (a[i] + b[i]) / 2;
  const auto pa = two.left(a, q), pb = two.left(b, q), p = two.left(mean, q);
  for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], (pa[i] + pb[i]) / 2, 1e-5);
  const auto qa = two.right(a, p), qb = two.right(b, p), qm = two.right(mean, p);
  for (std::size_t i = 0; i < qm.size(); ++i) EXPECT_NEAR(qm[i], (qa[i] + qb[i]) / 2, 1e-4);
}

}  // namespace
}  // namespace longhaul::sync::power
