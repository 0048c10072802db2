// qsgd: levels of stochastic rounding (Alistarh et al., "QSGD: communication-efficient SGD via
// gradient quantization and encoding", NeurIPS 2017, section 3.1). Buckets of `bucket` values from
// the start of the stretch; of each its norm n2 as fp32, and a whole level l of `bits` bits a
// value:
//
//   l = s |x| / n2, s = 2^(bits-1) - 1, rounded up with the probability of its fraction, with the
//   sign of x;  decoded: n2 l / s
//
// Unbiased; E |x - q|^2 <= min(b/s^2, sqrt(b)/s) n2^2 for a bucket of b values. Levels are written
// in a fixed number of bits in place of the paper's Elias coding (our choice): sizes are known
// before. Random numbers are those of draws.h.
#include <algorithm>
#include <cmath>

#include "longhaul/codec/entry.h"
#include "longhaul/codec/kernel.h"
#include "longhaul/codec/norms.h"
#include "longhaul/codec/stochastic.h"

namespace longhaul::codec {
namespace {

// Two levels of 4 bits a byte.
LONGHAUL_KERNEL void pack_nibbles(const std::int8_t* levels, std::size_t bytes, std::byte* out) {
  for (std::size_t i = 0; i < bytes; ++i)
    out[i] = std::byte((unsigned(levels[2 * i]) & 15u) | (unsigned(levels[2 * i + 1]) & 15u) << 4);
}

// Lowest bits first, in two's complement.
void pack_levels(std::span<const std::int8_t> levels, std::size_t bits, std::byte* out) {
  const std::size_t each = 8 / bits;
  const unsigned mask = (1u << bits) - 1;
  std::size_t i = 0;
  if (bits == 4) {
    i = levels.size() / 2 * 2;
    pack_nibbles(levels.data(), i / 2, out);
  }
  for (; i < levels.size(); i += each) {
    unsigned byte = 0;
    for (std::size_t k = 0; k < std::min(each, levels.size() - i); ++k)
      byte |= (unsigned(levels[i + k]) & mask) << (k * bits);
    out[i / each] = std::byte(byte);
  }
}

LONGHAUL_KERNEL void unpack_nibbles(const std::byte* in, std::size_t bytes, std::int8_t* levels) {
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto both = std::uint8_t(in[i]);
    levels[2 * i] = std::int8_t(std::int8_t(std::uint8_t(both << 4)) >> 4);
    levels[2 * i + 1] = std::int8_t(std::int8_t(both) >> 4);
  }
}

// Writes their values; answers with the least level.
LONGHAUL_KERNEL int restore_levels(const std::int8_t* levels, std::size_t count, float most,
                                   float norm, float* out) {
  std::int32_t least = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t level = levels[i];
    least = std::min(least, level);
    out[i] = float(level) / most * norm;
  }
  return least;
}

int level_at(std::span<const std::byte> in, std::size_t bits, std::size_t i) {
  const std::size_t each = 8 / bits;
  const unsigned shift = unsigned(8 - bits);
  const unsigned code = unsigned(in[i / each]) >> (i % each * bits);
  return std::int8_t(std::uint8_t(code << shift)) >> shift;
}

class Qsgd final : public StochasticCodec {
 public:
  struct Config {
    std::uint32_t bits = 4;
    std::uint32_t bucket = 512;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(bits, "of a level: 2, 4 or 8", .min = 2, .max = 8);
      LONGHAUL_KEY(bucket, "values that share a norm; a multiple of 8", .min = 8, .max = 1 << 20);
    }
  };
  static Status check(const Config& config, const Settings& settings) {
    if (config.bits != 2 && config.bits != 4 && config.bits != 8)
      return bad_setting(settings, *settings.find("bits"), "2, 4 or 8");
    if (config.bucket % 8 != 0)
      return bad_setting(settings, *settings.find("bucket"), "a multiple of 8");
    return Ok{};
  }

  Qsgd(const Config& config, const CodecSetting& where)
      : StochasticCodec("qsgd", config.bucket, (1u << (config.bits - 1)) - 1, where.place.seed),
        bits_(config.bits) {}

 private:
  float norm_of_block(std::span<const float> bucket) const override {
    return as_scale(std::sqrt(norm2_squared(bucket)));
  }
  std::size_t packed_bytes(std::size_t count) const override { return (count * bits_ + 7) / 8; }
  void pack(std::span<const std::int8_t> levels, std::byte* out) const override {
    pack_levels(levels, bits_, out);
  }

  std::string_view read_block(Cursor& in, std::span<float> bucket) const override {
    const float norm = *in.number<float>();
    const auto packed = *in.take(packed_bytes(bucket.size()));
    if (!is_scale(norm)) return "opens a bucket whose norm is not of this codec";
    std::vector<std::int8_t> levels(bucket.size());
    std::size_t i = 0;
    if (bits_ == 4) {
      i = bucket.size() / 2 * 2;
      unpack_nibbles(packed.data(), i / 2, levels.data());
    }
    for (; i < bucket.size(); ++i) levels[i] = std::int8_t(level_at(packed, bits_, i));
    const int least =
        restore_levels(levels.data(), levels.size(), float(most_), norm, bucket.data());
    return least < -int(most_) ? "opens a bucket with a level beyond its norm" : "";
  }

  const std::size_t bits_;
};

}  // namespace

CodecEntry qsgd() {
  return codec_entry<Qsgd, qsgd>(
      {.name = "qsgd",
       .summary = "unbiased random rounding to a few levels of a bucket's norm",
       .traits = {.algebra = Algebra::gather, .contraction = false, .close = false},
       .cost = {.bytes = "ceil(d/2) + 4 ceil(d/512)",
                .error = "unbiased; variance at most 3.23 n2^2 of a bucket of 512"}});
}

}  // namespace longhaul::codec
