#pragma once
// The quantiser of Q-GADMM. It encodes the difference between a model and the neighbours' copy in b
// bits per value. Rounding is random, and the mean over draws is the difference.
//   Elgabli et al., "Q-GADMM", arXiv 1910.10453; as in the authors' code.
//
// With d = theta - q and R the smallest fp32 that is no smaller than any |d_i|:
//   Delta = 2 R / (2^b - 1),  z = (d + R) / Delta,  code = floor(z) + [u < z - floor(z)],  u in
//   [0,1) q <- q + Delta code - R
// R = 0 sends no codes and keeps q (ours: the published code divides by R). Written as R, then the
// codes of b bits each, lowest bits first.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "longhaul/base/bytes.h"
#include "longhaul/base/check.h"
#include "longhaul/base/result.h"
#include "longhaul/base/rng.h"

namespace longhaul::sync::gadmm {

inline float range_of(std::span<const double> theta, std::span<const double> q) {
  double most = 0;
  for (std::size_t i = 0; i < theta.size(); ++i) most = std::max(most, std::abs(theta[i] - q[i]));
  auto range = float(most);
  if (double(range) < most) range = std::nextafter(range, std::numeric_limits<float>::infinity());
  return range;
}

inline double grain(float range, std::uint32_t bits) {
  return 2 * double(range) / double((1u << bits) - 1);
}

inline void put(Buffer& out, std::uint64_t bit, std::uint32_t code) {
  for (; code > 0; code >>= 1, ++bit)
    if (code & 1) out[bit / 8] |= std::byte(1 << bit % 8);
}

inline std::uint32_t get(std::span<const std::byte> in, std::uint64_t bit, std::uint32_t bits) {
  std::uint32_t code = 0;
  for (std::uint32_t i = 0; i < bits; ++i, ++bit)
    code |= std::uint32_t(std::to_integer<unsigned>(in[bit / 8]) >> bit % 8 & 1) << i;
  return code;
}

inline constexpr std::uint32_t kMostBits = 16;

// Bytes of a vector of `size` values whose R is not 0.
inline std::uint64_t quantised_bytes(std::uint64_t size, std::uint32_t bits) {
  return sizeof(float) + (size * bits + 7) / 8;
}

// theta and q must be finite and of one length. Moves q as every receiver does.
inline Buffer quantise(std::span<const double> theta, std::span<double> q, std::uint32_t bits,
                       Random& random) {
  LH_CHECK(theta.size() == q.size() && bits >= 1 && bits <= kMostBits);
  const float range = range_of(theta, q);
  const bool moves = range > 0;
  Buffer out(moves ? quantised_bytes(theta.size(), bits) : sizeof range);
  std::memcpy(out.data(), &range, sizeof range);
  if (!moves) return out;
  const double delta = grain(range, bits);
  const double most = double((1u << bits) - 1);
  for (std::size_t i = 0; i < theta.size(); ++i) {
    const double z = (theta[i] - q[i] + double(range)) / delta;
    const double low = std::floor(z);
    const double code = std::clamp(low + (random.uniform() < z - low ? 1 : 0), 0.0, most);
    put(out, 8 * sizeof range + i * bits, std::uint32_t(code));
    q[i] += delta * code - double(range);
  }
  return out;
}

// Applies the output of quantise() at a receiver with the same q. Returns Malformed, with q
// unchanged, if `in` is not such an output.
inline Status dequantise(std::span<const std::byte> in, std::span<double> q, std::uint32_t bits) {
  float range = 0;
  if (in.size() < sizeof range) return malformed("a quantised model without its range");
  std::memcpy(&range, in.data(), sizeof range);
  const bool moves = range > 0;
  if (!std::isfinite(range) || range < 0 ||
      in.size() != (moves ? quantised_bytes(q.size(), bits) : sizeof range))
    return malformed("a quantised model whose range or length cannot be");
  const double delta = grain(range, bits);
  for (std::size_t i = 0; moves && i < q.size(); ++i)
    q[i] += delta * double(get(in, 8 * sizeof range + i * bits, bits)) - double(range);
  return Ok{};
}

}  // namespace longhaul::sync::gadmm
