#include "longhaul/base/rng.h"

#include <cmath>
#include <numbers>

#include "longhaul/base/check.h"

namespace longhaul {

PhiloxBlock philox4x32(PhiloxBlock c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {std::uint32_t(p1 >> 32) ^ c[1] ^ k[0], std::uint32_t(p1),
         std::uint32_t(p0 >> 32) ^ c[3] ^ k[1], std::uint32_t(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

Random::Random(std::uint64_t seed, Stream s)
    : key_{std::uint32_t(seed), std::uint32_t(seed >> 32)},
      counter_{0, std::uint32_t(s.round), s.origin,
               std::uint32_t(s.purpose) << 24 | (s.range & 0xFFFFFF)} {}

std::uint32_t Random::bits32() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    LH_CHECK(++counter_[0] != 0);  // 2^34 draws from one stream: use another round or range
    used_ = 0;
  }
  return block_[used_++];
}

std::uint64_t Random::bits64() {
  const std::uint64_t low = bits32();
  return low | std::uint64_t{bits32()} << 32;
}

double Random::uniform() { return double(bits64() >> 11) * 0x1.0p-53; }

std::uint64_t Random::below(std::uint64_t bound) {
  LH_CHECK(bound > 0);
  const std::uint64_t reject = (0 - bound) % bound;  // 2^64 mod bound
  std::uint64_t draw = bits64();
  while (draw < reject) draw = bits64();
  return draw % bound;
}

double Random::normal() {  // Box and Muller; the second value is dropped so that no state is kept
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double Random::gamma(double shape) {  // Marsaglia and Tsang, 2000
  LH_CHECK(shape > 0);
  if (shape < 1) return gamma(shape + 1) * std::pow(1.0 - uniform(), 1.0 / shape);
  const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal(), v = std::pow(1.0 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1.0 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace longhaul
