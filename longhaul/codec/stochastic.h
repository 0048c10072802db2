#pragma once
// Stochastic rounding to whole levels: what qsgd and ternary have in common.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "longhaul/base/check.h"
#include "longhaul/codec/blocks.h"
#include "longhaul/codec/draws.h"
#include "longhaul/codec/kernel.h"

namespace longhaul::codec {

inline LONGHAUL_KERNEL void round_each(std::span<const float> values, float norm, float most,
                                       const std::uint32_t* draws, std::int8_t* out) {
  constexpr std::int32_t kOne = 0x3F800000;  // bits of 1.f
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Floats that are not negative are ordered as their bits are, whose minimum has no branch.
    const float share = std::abs(values[i]) / norm;
    const float place =
        std::bit_cast<float>(std::min(std::bit_cast<std::int32_t>(share), kOne)) * most;
    const auto floor = std::int32_t(place);
    // 24 bits of the draw: the precision of a float in [0, 1).
    const float draw = float(std::int32_t(draws[i] >> 8)) * 0x1p-24f;
    const std::int32_t level = floor + std::int32_t(draw < place - float(floor));
    const std::int32_t minus = -std::int32_t(values[i] < 0);  // all bits, or none
    out[i] = std::int8_t((level ^ minus) - minus);
  }
}

// Quantises values with |x| <= norm to -levels .. levels: x / norm * levels, rounded up with the
// probability of its fraction and else down. The mean is x / norm * levels to 2^-24 of a level, for
// up to 127 levels. `draws`: one for each value. If norm is 0, all levels are 0.
inline void round_stochastically(std::span<const float> values, float norm, std::uint32_t levels,
                                 std::span<const std::uint32_t> draws, std::span<std::int8_t> out) {
  LH_CHECK(draws.size() == values.size() && out.size() == values.size() && levels <= 127);
  if (norm == 0) return void(std::ranges::fill(out, std::int8_t(0)));
  round_each(values, norm, float(levels), draws.data(), out.data());
}

// Blocks of a norm as fp32 and the levels that its values are rounded to.
class StochasticCodec : public BlockCodec {
 public:
  StochasticCodec(std::string_view name, std::size_t block, std::uint32_t levels,
                  std::uint64_t seed)
      : BlockCodec(name, block), most_(levels), seed_(seed) {}

 protected:
  virtual float norm_of_block(std::span<const float>) const = 0;
  virtual std::size_t packed_bytes(std::size_t count) const = 0;
  virtual void pack(std::span<const std::int8_t> levels, std::byte* out) const = 0;

  const std::uint32_t most_;  // levels go from -most_ to most_

 private:
  std::size_t block_bytes(std::size_t count) const final { return 4 + packed_bytes(count); }
  void write_block(const CodecKey& key, std::uint64_t first, std::span<const float> values,
                   Buffer& out) final {
    drawn_.resize(values.size());
    levels_.resize(values.size());
    Draws(seed_, key).fill(first, drawn_);
    const float norm = norm_of_block(values);
    round_stochastically(values, norm, most_, drawn_, levels_);
    put(out, norm);
    pack(levels_, grow(out, packed_bytes(values.size())));
  }

  const std::uint64_t seed_;
  std::vector<std::uint32_t> drawn_;  // draws of the current block
  std::vector<std::int8_t> levels_;
};

}  // namespace longhaul::codec
