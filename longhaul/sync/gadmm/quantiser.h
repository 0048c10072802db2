#pragma once
// The quantiser of Q-GADMM: the difference of a model to what the neighbours hold of it, in b bits
// a value, rounded up or down at random so that the mean over draws is the difference.
//   Elgabli et al., "Q-GADMM", arXiv 1910.10453; as in the authors' code.
//
// With d = theta - q and R the smallest fp32 that is no smaller than any |d_i|:
//   Delta = 2 R / (2^b - 1),  z = (d + R) / Delta,  code = floor(z) + [u < z - floor(z)],  u in
//   [0,1) q <- q + Delta code - R
// R = 0 sends no codes and keeps q (ours: the published code divides by R). Written as R, then the
// codes of b bits each, lowest bits first.
#include <span>
#include <vector>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"
#include "longhaul/base/rng.h"

namespace longhaul::sync::gadmm {

inline constexpr std::uint32_t kMostBits = 16;

// Bytes of a vector of `size` values whose R is not 0.
std::uint64_t quantised_bytes(std::uint64_t size, std::uint32_t bits);
// theta and q are finite and of one length. Moves q as every receiver does.
Buffer quantise(std::span<const double> theta, std::span<double> q, std::uint32_t bits, Random&);
// What was written, at a receiver that holds the same q. Malformed, q unchanged: it is no such
// vector.
Status dequantise(std::span<const std::byte>, std::span<double> q, std::uint32_t bits);

}  // namespace longhaul::sync::gadmm
