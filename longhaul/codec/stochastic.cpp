#include "longhaul/codec/stochastic.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "longhaul/base/check.h"
#include "longhaul/codec/kernel.h"

namespace longhaul::codec {

namespace {

constexpr std::int32_t kOne = 0x3F800000;  // bits of 1.f

LONGHAUL_KERNEL void round_each(std::span<const float> values, float norm, float most,
                                const std::uint32_t* draws, std::int8_t* out) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Floats that are not negative are ordered as their bits are, whose minimum has no branch.
    const float share = std::abs(values[i]) / norm;
    const float place =
        std::bit_cast<float>(std::min(std::bit_cast<std::int32_t>(share), kOne)) * most;
    const auto floor = std::int32_t(place);
    // 24 bits of the draw: all that a float in [0, 1) holds.
    const float draw = float(std::int32_t(draws[i] >> 8)) * 0x1p-24f;
    const std::int32_t level = floor + std::int32_t(draw < place - float(floor));
    const std::int32_t minus = -std::int32_t(values[i] < 0);  // all bits, or none
    out[i] = std::int8_t((level ^ minus) - minus);
  }
}

}  // namespace

void round_stochastically(std::span<const float> values, float norm, std::uint32_t levels,
                          std::span<const std::uint32_t> draws, std::span<std::int8_t> out) {
  LH_CHECK(draws.size() == values.size() && out.size() == values.size() && levels <= 127);
  if (norm == 0) return std::fill(out.begin(), out.end(), std::int8_t(0));
  round_each(values, norm, float(levels), draws.data(), out.data());
}

}  // namespace longhaul::codec
