#include "longhaul/codec/cosine.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>

#include "longhaul/base/rng.h"

namespace longhaul::codec {
namespace {

std::vector<float> drawn_chunk(std::size_t n) {
  Random random(n, {});
  std::vector<float> values(n);
  for (float& value : values) value = float(random.normal());
  return values;
}

double squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double(value) * double(value);
  return sum;
}

TEST(Cosine, AConstantIsInTheFirstCoefficientAlone) {
  std::vector<float> in(16, 3), out(16, 7);
  CosineTransform(16).forward(in, out);
  EXPECT_FLOAT_EQ(out[0], 12);  // 3 sqrt(16)
  for (std::size_t k = 1; k < 16; ++k) EXPECT_NEAR(out[k], 0, 1e-6) << k;
}

TEST(Cosine, TheInverseGivesTheChunkBackAndTheNormStays) {
  for (const std::size_t n : {1u, 2u, 7u, 64u}) {
    const CosineTransform transform(n);
    const std::vector<float> in = drawn_chunk(n);
    std::vector<float> out(n), back(n);
    transform.forward(in, out);
    transform.inverse(out, back);
    EXPECT_NEAR(squares(out), squares(in), 1e-5 * squares(in)) << n;
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
