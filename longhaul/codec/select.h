#pragma once
// Selects the values of a range that a sparse codec sends.
#include <cstdint>
#include <span>
#include <vector>

#include "longhaul/codec/draws.h"
#include "longhaul/core/types.h"

namespace longhaul::codec {

// Returns max(1, ceil(ratio length)), at most `length`.
std::size_t count_of(double ratio, std::size_t length);

// Returns the indices of the `count` values of largest magnitude, ascending; of equal values the
// first. Leaves out zeros and values below `least`. Exact, in two passes, without sampling.
std::vector<std::uint32_t> largest(std::span<const float> values, std::size_t count, float least);

// Returns `count` places of the range, ascending; all sets of that size are equally likely (to
// 2^-32).
std::vector<std::uint32_t> random_places(const Draws&, Range at, std::size_t count);

}  // namespace longhaul::codec
