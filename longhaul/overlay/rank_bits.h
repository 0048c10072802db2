#pragma once
// A set of ranks as messages carry it: bit r % 8 of byte r / 8 is rank r.
#include <cstdint>
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul::overlay {

// as short as it can be
inline std::vector<std::uint8_t> to_bits(const std::vector<Rank>& ranks) {
  std::vector<std::uint8_t> bits;
  for (const Rank rank : ranks) {
    if (bits.size() <= rank / 8) bits.resize(rank / 8 + 1);
    bits[rank / 8] = std::uint8_t(bits[rank / 8] | 1u << rank % 8);
  }
  return bits;
}

// ascending
inline std::vector<Rank> from_bits(const std::vector<std::uint8_t>& bits) {
  std::vector<Rank> ranks;
  for (std::size_t bit = 0; bit < bits.size() * 8; ++bit)
    if (bits[bit / 8] >> bit % 8 & 1) ranks.push_back(Rank(bit));
  return ranks;
}

}  // namespace longhaul::overlay
