#include "longhaul/codec/demo.h"

#include <cmath>

#include <gmock/gmock.h>

#include "longhaul/codec/cosine.h"
#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using Floats = std::vector<float>;

// the inverse of the transform gives the values back (1e-5); norms are kept.
TEST(Demo, R3_30_TheCosineTransformIsOrthonormal) {
  for (const std::size_t length : {1u, 2u, 7u, 64u, 256u}) {
    const CosineTransform cosine(length);
    const Floats x = made::normal_values(length, length);
    Floats c(length), back(length);
    cosine.forward(x, c);
    cosine.inverse(c, back);
    EXPECT_NEAR(made::squared(c), made::squared(x), 1e-5 * made::squared(x));
    for (std::size_t i = 0; i < length; ++i) EXPECT_NEAR(back[i], x[i], 1e-5);
  }
}

TEST(Demo, OfConstantsAndCosinesOneCoefficientIsEnough) {
  Demo codec({.ratio = 1.0 / 64, .chunk = 64});
  Floats flat(64, 3.f), wave(64);
  for (std::size_t i = 0; i < 64; ++i)
    wave[i] = float(std::cos(M_PI * (2.0 * double(i) + 1) * 5 / 128));
  for (const Floats& x : {flat, wave}) {
    const Floats q = made::sent(codec, x);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(q[i], x[i], 1e-5);
  }
}

// All coefficients: nothing is lost (1e-5), also of a last chunk that is shorter.
TEST(Demo, OfAllCoefficientsTheValuesComeBack) {
  Demo codec({.ratio = 1, .chunk = 64});
  const Floats x = made::normal_values(150, 3), q = made::sent(codec, x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(q[i], x[i], 1e-5);
}

// The bound of top_k, since the transform keeps norms.
TEST(Demo, LosesAtMostTheShareThatIsNotSent) {
  Demo codec({.ratio = 0.25});
  const Floats x = made::normal_values(640, 4);
  EXPECT_LE(made::squared_distance(x, made::sent(codec, x)), 0.75 * made::squared(x));
}

}  // namespace
}  // namespace longhaul::codec
