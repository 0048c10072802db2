#include "longhaul/codec/qsgd.h"

#include <algorithm>
#include <cmath>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/cursor.h"
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

// Their values; the least level.
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

}  // namespace

CodecEntry Qsgd::entry() {
  return codec_entry<Qsgd>(
      {.name = "qsgd",
       .summary = "unbiased random rounding to a few levels of a bucket's norm",
       .traits = {.algebra = Algebra::gather, .contraction = false, .close = false},
       .cost = {.bytes = "ceil(d/2) + 4 ceil(d/512)",
                .error = "unbiased; variance at most 3.23 n2^2 of a bucket of 512"}});
}

Status Qsgd::check(const Config& config, const Settings& settings) {
  if (config.bits != 2 && config.bits != 4 && config.bits != 8)
    return bad_setting(settings, *settings.find("bits"), "2, 4 or 8");
  if (config.bucket % 8 != 0)
    return bad_setting(settings, *settings.find("bucket"), "a multiple of 8");
  return Ok{};
}

Qsgd::Qsgd(const Config& config, const CodecSetting& where)
    : seed_(where.place.seed),
      bits_(config.bits),
      bucket_(config.bucket),
      levels_((1u << (config.bits - 1)) - 1) {}

std::size_t Qsgd::encoded_size(std::size_t length) const {
  return packed_size(length) + 4 * (length / bucket_ + (length % bucket_ != 0 ? 1 : 0));
}

Buffer Qsgd::encode(const CodecKey& key, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  const Draws draws(seed_, key);
  std::vector<std::uint32_t> drawn(std::min(bucket_, values.size()));
  std::vector<std::int8_t> levels(drawn.size());
  Buffer bytes;
  bytes.reserve(encoded_size(values.size()));
  for (std::size_t done = 0; done < values.size(); done += bucket_) {
    const auto bucket = values.subspan(done, std::min(bucket_, values.size() - done));
    drawn.resize(bucket.size());
    levels.resize(bucket.size());
    draws.fill(at.offset + done, drawn);
    const float norm = as_scale(std::sqrt(norm2_squared(bucket)));
    round_stochastically(bucket, norm, levels_, drawn, levels);
    put(bytes, norm);
    const std::size_t begin = bytes.size();
    bytes.resize(begin + packed_size(bucket.size()));
    pack_levels(levels, bits_, &bytes[begin]);
  }
  return bytes;
}

Status Qsgd::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("qsgd", at, in.size(), encoded_size(out.size())));
  Cursor cursor(in);
  std::vector<std::int8_t> levels;
  for (std::size_t done = 0; done < out.size(); done += bucket_) {
    const auto bucket = out.subspan(done, std::min(bucket_, out.size() - done));
    const float norm = *cursor.number<float>();
    const auto packed = *cursor.take(packed_size(bucket.size()));
    if (!(norm >= 0 && norm <= FLT_MAX))
      return bad_value("qsgd", at.offset + done, "opens a bucket whose norm is not of this codec");
    levels.resize(bucket.size());
    std::size_t i = 0;
    if (bits_ == 4) {
      i = bucket.size() / 2 * 2;
      unpack_nibbles(packed.data(), i / 2, levels.data());
    }
    for (; i < bucket.size(); ++i) levels[i] = std::int8_t(level_at(packed, bits_, i));
    const int least =
        restore_levels(levels.data(), levels.size(), float(levels_), norm, bucket.data());
    if (least < -int(levels_))
      return bad_value("qsgd", at.offset + done, "opens a bucket with a level beyond its norm");
  }
  return Ok{};
}

}  // namespace longhaul::codec
