#include "longhaul/codec/cosine.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

TEST(Cosine, AConstantIsInTheFirstCoefficientAlone) {
  std::vector<float> in(16, 3), out(16, 7);
  CosineTransform(16).forward(in, out);
  EXPECT_FLOAT_EQ(out[0], 12);  // 3 sqrt(16)
  for (std::size_t k = 1; k < 16; ++k) EXPECT_NEAR(out[k], 0, 1e-6) << k;
}

// the inverse of the transform gives the values back; norms are kept.
TEST(Cosine, R3_30_TheInverseGivesTheChunkBackAndTheNormStays) {
  for (const std::size_t n : {1u, 2u, 7u, 64u, 256u}) {
    const CosineTransform transform(n);
    const std::vector<float> in = made::normal_values(n, n);
    std::vector<float> out(n), back(n);
    transform.forward(in, out);
    transform.inverse(out, back);
    EXPECT_NEAR(made::squared(out), made::squared(in), 1e-5 * made::squared(in)) << n;
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(back[i], in[i], 1e-5) << n << " " << i;
  }
}

TEST(Cosine, TheLargestFloatsStayFinite) {
  std::vector<float> in(64, FLT_MAX), out(64);
  CosineTransform(64).forward(in, out);
  EXPECT_EQ(out[0], FLT_MAX);
  for (const float value : out) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace longhaul::codec
