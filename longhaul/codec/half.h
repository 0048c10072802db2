#pragma once
// IEEE 754 binary16 ("half") in plain integer code: bit-identical on every machine, with or without
// F16C. The code has no branches, so that compilers turn loops over it into vector instructions.
#include <algorithm>
#include <bit>
#include <cstdint>

namespace longhaul::codec {

inline constexpr std::uint32_t kMagnitude = 0x7FFFFFFFu;    // a float's bits without its sign
inline constexpr std::uint32_t kLargestHalf = 0x477FE000u;  // bits of 65504.f
inline constexpr std::uint32_t kSmallestNormalHalf = 0x38800000u;  // bits of 2^-14

inline bool over_half(float value) {
  return (std::bit_cast<std::uint32_t>(value) & kMagnitude) > kLargestHalf;
}

// Nearest half, ties to even; magnitudes over 65504 become 65504. `value` is finite.
inline std::uint16_t to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = std::min(bits & kMagnitude, kLargestHalf);
  // Normal: rebias the exponent (127 - 15), add just under half a unit of the last place that
  // stays, or just half if that place is odd, and drop the rest.
  const std::uint32_t rounding = 0x0FFFu + ((magnitude >> 13) & 1u);
  const std::uint32_t normal = (magnitude - 0x38000000u + rounding) >> 13;
  // Subnormal: in [0.5, 1) a float's last place is 2^-24, as a subnormal half's is; the addition
  // itself rounds to nearest even.
  const float sum = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(sum) - 0x3F000000u;
  const std::uint32_t small = 0u - std::uint32_t(magnitude < kSmallestNormalHalf);  // a mask
  const std::uint32_t half = (subnormal & small) | (normal & ~small);
  return std::uint16_t(half | sign);
}

// An exponent of all ones: infinite or not a number.
inline bool half_is_finite(std::uint16_t half) { return (half & 0x7C00u) != 0x7C00u; }

// Exact. `half` is finite.
inline float from_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7FFFu;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000u;
  // No intermediate value is a subnormal float: those may be flushed to zero, and are slow.
  const float tiny = float(std::int32_t(magnitude)) * 0x1p-24f;
  const std::uint32_t small = 0u - std::uint32_t(magnitude < 0x0400u);  // a mask
  const std::uint32_t bits = (std::bit_cast<std::uint32_t>(tiny) & small) | (normal & ~small);
  return std::bit_cast<float>(bits | sign);
}

}  // namespace longhaul::codec
