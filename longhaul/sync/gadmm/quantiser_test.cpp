#include "longhaul/sync/gadmm/quantiser.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

namespace longhaul::sync::gadmm {
namespace {

using Vector = std::vector<double>;

Random draws(std::uint64_t round) { return Random(7, {.purpose = Purpose::codec, .round = round}); }

std::vector<unsigned> codes_of(const Buffer& bytes, unsigned bits, std::size_t count) {
  std::vector<unsigned> codes;
  for (std::size_t i = 0; i < count; ++i) {
    unsigned code = 0;
    for (unsigned b = 0; b < bits; ++b) {
      const std::size_t at = i * bits + b;
      code |= (std::to_integer<unsigned>(bytes.at(4 + at / 8)) >> at % 8 & 1) << b;
    }
    codes.push_back(code);
  }
  return codes;
}

// gadmm_test.cpp, invariant 10: the example. z = (2.25, 0, 3): where z is whole the code is z for
// every u.
TEST(Quantiser, TheExample) {
  const Vector theta = {0.375, -0.75, 0.75};
  int up = 0;
  constexpr int kDraws = 4000;
  for (int k = 0; k < kDraws; ++k) {
    Vector q(3);
    Random random = draws(std::uint64_t(k));
    const Buffer bytes = quantise(theta, q, 2, random);
    ASSERT_EQ(bytes.size(), 5u);
    const auto codes = codes_of(bytes, 2, 3);
    ASSERT_TRUE(codes[0] == 2 || codes[0] == 3);
    ASSERT_EQ(codes[1], 0u);
    ASSERT_EQ(codes[2], 3u);
    up += codes[0] == 3;
    EXPECT_EQ(q, (Vector{codes[0] == 3 ? 0.75 : 0.25, -0.75, 0.75}));
  }
  EXPECT_NEAR(double(up) / kDraws, 0.25, 0.03);
}

// gadmm_test.cpp, invariant 10.
TEST(Quantiser, StaysWithinAGrainAndIsRightInTheMean) {
  for (const std::uint32_t bits : {2u, 3u, 5u, 8u, 11u, 16u}) {
    const Vector theta = {0.1, -3.7, 2.2, 1e-5, 0.9}, start = {1, -1, 0.5, 0, 0.9};
    const double grain = 2 * 2.7 * (1 + 1e-7) / double((1u << bits) - 1);
    Vector mean(theta.size());
    constexpr int kDraws = 3000;
    for (int k = 0; k < kDraws; ++k) {
      Vector q = start, far = start;
      Random random = draws(std::uint64_t(k));
      const Buffer bytes = quantise(theta, q, bits, random);
      EXPECT_EQ(bytes.size(), quantised_bytes(theta.size(), bits));
      ASSERT_TRUE(dequantise(bytes, far, bits));
      ASSERT_EQ(q, far) << "both ends hold the same bits";
      for (std::size_t i = 0; i < q.size(); ++i) {
        ASSERT_LE(std::abs(q[i] - theta[i]), grain);
        mean[i] += q[i] / kDraws;
      }
    }
    for (std::size_t i = 0; i < mean.size(); ++i)
      EXPECT_NEAR(mean[i], theta[i], 4 * grain / std::sqrt(double(kDraws)));
  }
}

TEST(Quantiser, AModelThatHasNotMovedSendsNoCodes) {
  Vector q = {1, 2}, far = q;
  Random random = draws(0);
  const Buffer bytes = quantise(Vector{1, 2}, q, 2, random);
  EXPECT_EQ(bytes.size(), 4u);
  EXPECT_TRUE(dequantise(bytes, far, 2));
  EXPECT_EQ(far, (Vector{1, 2}));
}

TEST(Quantiser, RefusesWhatItDoesNotWrite) {
  Vector q = {1, 2, 3};
  Random random = draws(0);
  const Buffer good = quantise(Vector{0, 0, 1}, q, 2, random);
  const Vector before = q;
  for (const std::size_t size : {0u, 3u, 4u, 6u}) {
    Buffer bad = good;
    bad.resize(size);
    EXPECT_FALSE(dequantise(bad, q, 2)) << size;
  }
  for (const float range : {-1.f, float(NAN), float(INFINITY), 0.f}) {
    Buffer bad = good;
    std::memcpy(bad.data(), &range, 4);
    EXPECT_FALSE(dequantise(bad, q, 2)) << range;
  }
  EXPECT_EQ(q, before);
}

}  // namespace
}  // namespace longhaul::sync::gadmm
