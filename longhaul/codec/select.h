#pragma once
// Which values of a stretch a sparse codec sends.
#include <cstdint>
#include <span>
#include <vector>

#include "longhaul/codec/draws.h"
#include "longhaul/core/types.h"

namespace longhaul::codec {

// max(1, ceil(ratio length)), at most `length`.
std::size_t count_of(double ratio, std::size_t length);

// The `count` values of largest magnitude, of equal ones those in front; without zeros and without
// those below `least`. Ascending. Exact, in two passes over the values: no sampling is needed.
std::vector<std::uint32_t> largest(std::span<const float> values, std::size_t count, float least);

// `count` places of the stretch, all sets of that size equally likely (to 2^-32). Ascending.
std::vector<std::uint32_t> random_places(const Draws&, Range at, std::size_t count);

}  // namespace longhaul::codec
