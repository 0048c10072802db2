// int8: blocks of 256 values from the start of the stretch; each block is a scale s = max abs / 127
// (fp32) and one signed byte q = nearest even of x / s per value. d + 4 ceil(d/256) bytes. Error
// <= s/2 (and rounding of the fp32 product); a block of zeros is exact.
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/kernel.h"

namespace longhaul::codec {
namespace {

constexpr std::size_t kBlock = 256;
constexpr float kLevels = 127.f;
constexpr std::int32_t kInfinity = 0x7F800000;

// Blocks are whole, filled up with zeros: loops of a fixed length vectorise.
struct FloatBlock {
  float values[kBlock] = {};
};
struct ByteBlock {
  std::int8_t values[kBlock] = {};
};

// Bits of the largest magnitude: as integers, magnitudes of floats are ordered as the floats are,
// and those that are not finite come last.
LONGHAUL_KERNEL std::int32_t largest_magnitude(const FloatBlock& block) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    most = std::max(most, std::bit_cast<std::int32_t>(block.values[i]) & 0x7FFFFFFF);
  return most;
}

float scale_of(float max) {
  float scale = max / kLevels;
  // The quotient may have rounded so far that 127 steps overflow, or, where floats are subnormal
  // and a unit of the last place is a large step, fall short of `max`.
  if (!std::isfinite(kLevels * scale)) scale = std::nextafterf(scale, 0.f);
  const bool subnormal = scale < FLT_MIN;
  if (subnormal && double(scale) * 127.0 < double(max)) scale = std::nextafterf(scale, 1.f);
  return scale;
}

// |x / scale| <= 127 and a little. Adding 1.5 * 2^23 leaves no place for a fraction: the addition
// rounds to nearest even, and the integer stands in the low bits.
LONGHAUL_KERNEL void quantise(const FloatBlock& in, float scale, ByteBlock& out) {
  constexpr float kRounder = 0x1.8p23f;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float rounded = in.values[i] / scale + kRounder;
    out.values[i] = std::int8_t(std::bit_cast<std::int32_t>(rounded) & 0xFF);
  }
}

// False: one of them is -128, which is no level, and `out` has no meaning.
LONGHAUL_KERNEL bool restore(const std::byte* in, std::size_t count, float scale, float* out) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto level = std::int8_t(in[i]);
    bad |= std::uint32_t(level == -128);
    out[i] = float(level) * scale;
  }
  return bad == 0;
}

class Int8 final : public Codec {
 public:
  std::size_t encoded_size(std::size_t length) const override {
    return length + 4 * (length / kBlock + (length % kBlock != 0 ? 1 : 0));
  }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length);
    Buffer bytes(encoded_size(values.size()));
    std::byte* to = bytes.data();
    for (std::size_t done = 0; done < values.size(); done += kBlock) {
      const std::size_t count = std::min(kBlock, values.size() - done);
      FloatBlock block;
      ByteBlock levels;
      std::memcpy(block.values, &values[done], 4 * count);
      const std::int32_t most = largest_magnitude(block);
      LH_CHECK(most < kInfinity);
      const float scale = scale_of(std::bit_cast<float>(most));
      if (most > 0) quantise(block, scale, levels);
      std::memcpy(to, &scale, 4);
      std::memcpy(to + 4, levels.values, count);
      to += 4 + count;
    }
    return bytes;
  }

  Status decode(const CodecKey&, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    LH_TRY(expect_size("int8", at, in.size(), encoded_size(out.size())));
    const std::byte* from = in.data();
    for (std::size_t done = 0; done < out.size(); done += kBlock) {
      const std::size_t count = std::min(kBlock, out.size() - done);
      float scale = 0;
      std::memcpy(&scale, from, 4);
      if (std::signbit(scale) || !std::isfinite(kLevels * scale))
        return bad_value("int8", at.offset + done,
                         "opens a block whose scale is not of this codec");
      if (!restore(from + 4, count, scale, &out[done]))
        return bad_value("int8", at.offset + done,
                         "opens a block that holds -128, which is no level");
      from += 4 + count;
    }
    return Ok{};
  }
};

}  // namespace

CodecEntry int8() {
  return codec_entry<Int8, int8>(
      {.name = "int8",
       .summary = "one byte each and a scale per block of 256",
       .traits = {.algebra = Algebra::reencode, .unbiased = false},
       .cost = {.bytes = "d + 4 ceil(d/256)",
                .error = "at most max/254 of a block of 256; a zero block is exact"}});
}

}  // namespace longhaul::codec
