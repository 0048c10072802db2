#include "longhaul/codec/sign.h"

#include <algorithm>
#include <bit>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/cursor.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/kernel.h"
#include "longhaul/codec/norms.h"

namespace longhaul::codec {
namespace {

struct SignScales {
  float up = 0, down = 0;  // decoded values of a 0 and of a 1
};

SignScales l1_scales(std::span<const float> block) {
  const float scale = as_scale(norm1(block) / double(block.size()));
  return {scale, -scale};
}

SignScales mean_scales(std::span<const float> block) {
  double up = 0, down = 0;
  std::size_t ups = 0;
  for (const float value : block) {
    (value < 0 ? down : up) += double(value);
    ups += value < 0 ? 0u : 1u;
  }
  const std::size_t downs = block.size() - ups;
  return {ups == 0 ? 0.f : float(up / double(ups)), downs == 0 ? 0.f : float(down / double(downs))};
}

// Bit i % 8 of byte i / 8: value i is below 0.
LONGHAUL_KERNEL void pack_signs(std::span<const float> block, std::byte* out) {
  std::size_t i = 0;
  for (; i + 8 <= block.size(); i += 8) {
    unsigned byte = 0;
    for (unsigned bit = 0; bit < 8; ++bit) byte |= unsigned(block[i + bit] < 0) << bit;
    out[i / 8] = std::byte(byte);
  }
  for (; i < block.size(); ++i) out[i / 8] |= std::byte(unsigned(block[i] < 0) << (i % 8));
}

LONGHAUL_KERNEL void unpack_signs(std::span<const std::byte> bits, const SignScales& scales,
                                  std::span<float> block) {
  const std::uint32_t up = std::bit_cast<std::uint32_t>(scales.up);
  const std::uint32_t down = std::bit_cast<std::uint32_t>(scales.down);
  const auto value = [&](unsigned byte, unsigned bit) {
    const std::uint32_t mask = 0u - ((byte >> bit) & 1u);
    return std::bit_cast<float>((up & ~mask) | (down & mask));
  };
  std::size_t i = 0;
  for (; i + 8 <= block.size(); i += 8)
    for (unsigned bit = 0; bit < 8; ++bit) block[i + bit] = value(unsigned(bits[i / 8]), bit);
  for (; i < block.size(); ++i) block[i] = value(unsigned(bits[i / 8]), unsigned(i % 8));
}

// Bits behind the last value are 0.
bool fills_bits(std::span<const std::byte> bits, std::size_t count) {
  return count % 8 == 0 || unsigned(bits.back()) >> (count % 8) == 0;
}

}  // namespace

CodecEntry Sign::entry() {
  return codec_entry<Sign>(
      {.name = "sign",
       .summary = "one bit each and a scale per block",
       .traits = {.algebra = Algebra::gather, .unbiased = false, .close = false, .feedback = true},
       .cost = {.bytes = "ceil(d/8) + 4 ceil(d/1024)",
                .error = "squared: n2^2 - n1^2/1024 of a block of 1024"}});
}

Status Sign::check(const Config& config, const Settings& settings) {
  if (config.block % 8 == 0) return Ok{};
  return bad_setting(settings, *settings.find("block"), "a multiple of 8");
}

std::size_t Sign::encoded_size(std::size_t length) const {
  const std::size_t blocks = length / block_ + (length % block_ != 0 ? 1 : 0);
  return length / 8 + (length % 8 != 0 ? 1 : 0) + (means_ ? 8 : 4) * blocks;
}

Buffer Sign::encode(const CodecKey&, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  Buffer bytes;
  bytes.reserve(encoded_size(values.size()));
  for (std::size_t done = 0; done < values.size(); done += block_) {
    const auto block = values.subspan(done, std::min(block_, values.size() - done));
    const SignScales scales = means_ ? mean_scales(block) : l1_scales(block);
    put(bytes, scales.up);
    if (means_) put(bytes, scales.down);
    const std::size_t begin = bytes.size();
    bytes.resize(begin + (block.size() + 7) / 8);
    pack_signs(block, &bytes[begin]);
  }
  return bytes;
}

Status Sign::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("sign", at, in.size(), encoded_size(out.size())));
  Cursor cursor(in);
  for (std::size_t done = 0; done < out.size(); done += block_) {
    const auto block = out.subspan(done, std::min(block_, out.size() - done));
    SignScales scales;
    scales.up = *cursor.number<float>();
    scales.down = means_ ? *cursor.number<float>() : -scales.up;
    const auto bits = *cursor.take((block.size() + 7) / 8);
    if (!(scales.up >= 0 && scales.up <= FLT_MAX && scales.down <= 0 && scales.down >= -FLT_MAX))
      return bad_value("sign", at.offset + done, "opens a block whose scale is not of this codec");
    if (!fills_bits(bits, block.size()))
      return bad_value("sign", at.offset + done, "opens a block with bits behind its end");
    unpack_signs(bits, scales, block);
  }
  return Ok{};
}

}  // namespace longhaul::codec
