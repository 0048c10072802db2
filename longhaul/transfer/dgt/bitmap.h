#pragma once
// A set of blocks as messages carry it: bit s % 8 of byte s / 8 is block s.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace longhaul::transfer::dgt {

using Bitmap = std::vector<std::uint8_t>;

inline Bitmap empty_bitmap(std::size_t blocks) { return Bitmap((blocks + 7) / 8); }
inline bool has(const Bitmap& set, std::size_t block) {
  return block / 8 < set.size() && (set[block / 8] >> block % 8 & 1) != 0;
}
inline void insert(Bitmap& set, std::size_t block) {
  set[block / 8] = std::uint8_t(set[block / 8] | 1u << block % 8);
}
inline std::uint32_t count(const Bitmap& set) {
  std::uint32_t sum = 0;
  for (std::size_t block = 0; block < 8 * set.size(); ++block) sum += has(set, block) ? 1 : 0;
  return sum;
}
// As long as `blocks` need, and nothing of others in it.
inline bool is_of(const Bitmap& set, std::size_t blocks) {
  if (set.size() != (blocks + 7) / 8) return false;
  for (std::size_t block = blocks; block < 8 * set.size(); ++block)
    if (has(set, block)) return false;
  return true;
}
inline bool is_subset(const Bitmap& part, const Bitmap& whole) {
  for (std::size_t i = 0; i < part.size(); ++i)
    if (i >= whole.size() || (part[i] & ~whole[i]) != 0) return false;
  return true;
}

}  // namespace longhaul::transfer::dgt
