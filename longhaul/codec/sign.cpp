// sign: one bit a value and a scale a block of values (Bernstein et al., "signSGD", ICML 2018; with
// the scale and error feedback, Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019).
//
//   l1      s = sum |x| / b of the block's b values;  decoded: s sgn(x), sgn 0 = +1
//   means   two scales, the mean of the values >= 0 and that of the others; decoded: that of its
//           side (Seide et al., "1-bit stochastic gradient descent", Interspeech 2014)
//
// Blocks of fixed length in place of layers are our choice: the codec knows no layers. Error: the
// squared norm of what is lost is n2^2 - n1^2/b of a block, n1 and n2 its norms.
#include <bit>

#include "longhaul/codec/blocks.h"
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

class Sign final : public BlockCodec {
 public:
  struct Config {
    std::string scale = "l1";
    std::uint32_t block = 1024;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(scale,
                   "l1: the mean magnitude of a block; means: that of its values from 0 up and "
                   "that of those below",
                   .choices = {"l1", "means"});
      LONGHAUL_KEY(block, "values that share a scale; a multiple of 8", .min = 8, .max = 1 << 20);
    }
  };
  static Status check(const Config& config, const Settings& settings) {
    if (config.block % 8 == 0) return Ok{};
    return bad_setting(settings, *settings.find("block"), "a multiple of 8");
  }

  explicit Sign(const Config& config)
      : BlockCodec("sign", config.block), means_(config.scale == "means") {}

 private:
  std::size_t block_bytes(std::size_t count) const override {
    return (means_ ? 8 : 4) + (count + 7) / 8;
  }

  void write_block(const CodecKey&, std::uint64_t, std::span<const float> block,
                   Buffer& out) override {
    const SignScales scales = means_ ? mean_scales(block) : l1_scales(block);
    put(out, scales.up);
    if (means_) put(out, scales.down);
    pack_signs(block, grow(out, (block.size() + 7) / 8));
  }

  std::string_view read_block(Cursor& in, std::span<float> block) const override {
    SignScales scales;
    scales.up = *in.number<float>();
    scales.down = means_ ? *in.number<float>() : -scales.up;
    const auto bits = *in.take((block.size() + 7) / 8);
    if (!is_scale(scales.up) || !is_scale(-scales.down))
      return "opens a block whose scale is not of this codec";
    if (!fills_bits(bits, block.size())) return "opens a block with bits behind its end";
    unpack_signs(bits, scales, block);
    return "";
  }

  const bool means_;
};

}  // namespace

CodecEntry sign() {
  return codec_entry<Sign, sign>(
      {.name = "sign",
       .summary = "one bit each and a scale per block",
       .traits = {.algebra = Algebra::gather, .unbiased = false, .close = false, .feedback = true},
       .cost = {.bytes = "ceil(d/8) + 4 ceil(d/1024)",
                .error = "squared: n2^2 - n1^2/1024 of a block of 1024"}});
}

}  // namespace longhaul::codec
