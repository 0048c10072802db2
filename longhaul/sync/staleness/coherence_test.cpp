#include "longhaul/sync/staleness/coherence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul::sync::staleness {
namespace {

// Gradient descent on lambda x^2 / 2: g_(k-m) = g_k (1 - eta lambda)^(-m).
TEST(Coherence, Inv7_OfGradientDescentOnAQuadratic) {
  constexpr double kStep = 0.2;  // eta lambda
  for (const std::uint32_t window : {1u, 4u}) {
    Coherence coherence(window);
    double x = 1;
    for (int k = 0; k < 10; ++k, x *= 1 - kStep) {
      coherence.add(std::vector<float>{float(x), float(-2 * x)});
      EXPECT_EQ(coherence.measure().has_value(), k >= int(window));
    }
    const auto measured = coherence.measure();
    ASSERT_TRUE(measured);
    EXPECT_NEAR(measured->mu, 1 / (1 - kStep), 1e-5);  // the least is that of lag 1
    ASSERT_EQ(measured->cosines.size(), window);
    for (const double cosine : measured->cosines) EXPECT_NEAR(cosine, 1, 1e-6);
  }
}

TEST(Coherence, IsTheLeastOfTheLagsAndNegativeUphill) {
  Coherence coherence(2);
  coherence.add(std::vector<float>{-3, 1});
  coherence.add(std::vector<float>{1, 1});
  coherence.add(std::vector<float>{2, 0});
  EXPECT_DOUBLE_EQ(coherence.measure()->mu, -6.0 / 4);
  EXPECT_DOUBLE_EQ(coherence.measure()->cosines[0], std::sqrt(0.5));
  coherence.add(std::vector<float>{0, 0});
  EXPECT_FALSE(coherence.measure());
}

}  // namespace
}  // namespace longhaul::sync::staleness
