#pragma once
// A set of ranks as messages carry it: bit r % 8 of byte r / 8 is rank r.
#include <cstdint>
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul::overlay {

std::vector<std::uint8_t> to_bits(const std::vector<Rank>&);    // as short as it can be
std::vector<Rank> from_bits(const std::vector<std::uint8_t>&);  // ascending

}  // namespace longhaul::overlay
