// Invariants (in this file unless another is named):
//   - the error bound
//   - the transform and its inverse give the values back (1e-5): cosine_test.cpp
//   - sent and kept values add up; any bytes decode to values or an error:
//     registry_test.cpp, fuzz/codec_fuzz.cpp
#include <cmath>

#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using Floats = std::vector<float>;

TEST(Demo, OfConstantsAndCosinesOneCoefficientIsEnough) {
  const auto codec = made::plain("demo", {{"ratio", {1.0 / 64}}, {"chunk", {std::int64_t{64}}}});
  Floats flat(64, 3.f), wave(64);
  for (std::size_t i = 0; i < 64; ++i)
    wave[i] = float(std::cos(M_PI * (2.0 * double(i) + 1) * 5 / 128));
  for (const Floats& x : {flat, wave}) {
    const Floats q = made::sent(*codec, x);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(q[i], x[i], 1e-5);
  }
}

// All coefficients: nothing is lost (1e-5), also of a last chunk that is shorter.
TEST(Demo, OfAllCoefficientsTheValuesComeBack) {
  const auto codec = made::plain("demo", {{"ratio", {1.0}}, {"chunk", {std::int64_t{64}}}});
  const Floats x = made::normal_values(150, 3), q = made::sent(*codec, x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(q[i], x[i], 1e-5);
}

// The bound of top_k, since the transform keeps norms.
TEST(Demo, LosesAtMostTheShareThatIsNotSent) {
  const auto codec = made::plain("demo", {{"ratio", {0.25}}});
  const Floats x = made::normal_values(640, 4);
  EXPECT_LE(made::squared_distance(x, made::sent(*codec, x)), 0.75 * made::squared(x));
}

}  // namespace
}  // namespace longhaul::codec
