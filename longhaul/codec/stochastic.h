#pragma once
// Stochastic rounding to whole levels: what qsgd and ternary have in common.
#include <cstdint>
#include <span>

#include "longhaul/codec/draws.h"

namespace longhaul::codec {

// Of values with |x| <= norm: x / norm * levels, rounded up with the probability of its fraction
// and else down, in -levels .. levels. Its mean is x / norm * levels to 2^-24 of a level for each
// of up to 127 levels. `draws`: one for each value. A norm of 0: all levels are 0.
void round_stochastically(std::span<const float> values, float norm, std::uint32_t levels,
                          std::span<const std::uint32_t> draws, std::span<std::int8_t> out);

}  // namespace longhaul::codec
