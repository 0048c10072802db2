#include "longhaul/codec/stochastic.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/check.h"

namespace longhaul::codec {

void round_stochastically(std::span<const float> values, float norm, std::uint32_t levels,
                          std::span<const std::uint32_t> draws, std::span<std::int8_t> out) {
  LH_CHECK(draws.size() == values.size() && out.size() == values.size() && levels <= 127);
  if (norm == 0) return std::fill(out.begin(), out.end(), std::int8_t(0));
  const float most = float(levels);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float place = std::min(std::abs(values[i]) / norm, 1.f) * most;
    const auto floor = std::int32_t(place);
    // 24 bits of the draw: all that a float in [0, 1) holds.
    const float draw = float(std::int32_t(draws[i] >> 8)) * 0x1p-24f;
    const std::int32_t level = floor + (draw < place - float(floor) ? 1 : 0);
    out[i] = std::int8_t(values[i] < 0 ? -level : level);
  }
}

}  // namespace longhaul::codec
