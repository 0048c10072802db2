#include "longhaul/overlay/rank_bits.h"

namespace longhaul::overlay {

std::vector<std::uint8_t> to_bits(const std::vector<Rank>& ranks) {
  std::vector<std::uint8_t> bits;
  for (const Rank rank : ranks) {
    if (bits.size() <= rank / 8) bits.resize(rank / 8 + 1);
    bits[rank / 8] = std::uint8_t(bits[rank / 8] | 1u << rank % 8);
  }
  return bits;
}

std::vector<Rank> from_bits(const std::vector<std::uint8_t>& bits) {
  std::vector<Rank> ranks;
  for (std::size_t bit = 0; bit < bits.size() * 8; ++bit)
    if (bits[bit / 8] >> bit % 8 & 1) ranks.push_back(Rank(bit));
  return ranks;
}

}  // namespace longhaul::overlay
