#pragma once
// Norms of stretches, in double, added in an order that does not depend on the machine: eight sums
// side by side, as vector instructions add, and these in order.
#include <array>
#include <cfloat>
#include <cmath>
#include <span>

namespace longhaul::codec {

double sum_of(std::span<const float> values, auto term) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += term(double(values[i + lane]));
  for (std::size_t i = whole; i < values.size(); ++i) sums[i - whole] += term(double(values[i]));
  double sum = 0;
  for (const double one : sums) sum += one;
  return sum;
}

inline double norm1(std::span<const float> values) {
  return sum_of(values, [](double v) { return std::abs(v); });
}
// Squares of floats neither overflow a double nor, but for subnormal ones, vanish.
inline double norm2_squared(std::span<const float> values) {
  return sum_of(values, [](double v) { return v * v; });
}
inline float largest_magnitude_of(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}
// A scale as it is written: the float nearest to it that is finite.
inline float as_scale(double value) { return float(std::min(value, double(FLT_MAX))); }

}  // namespace longhaul::codec
