#include "longhaul/codec/fp16.h"

#include <algorithm>
#include <cstring>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/half.h"

namespace longhaul::codec {
namespace {

// Loops of a fixed length are turned into vector instructions without a scalar remainder.
constexpr std::size_t kHalves = 64;

struct HalfInput {
  float values[kHalves] = {};
};
struct HalfBlock {
  std::uint16_t values[kHalves] = {};
};

std::uint32_t encode_block(const HalfInput& in, HalfBlock& out) {
  std::uint32_t over = 0;
  for (std::size_t i = 0; i < kHalves; ++i) over += over_half(in.values[i]) ? 1u : 0u;
  for (std::size_t i = 0; i < kHalves; ++i) out.values[i] = to_half(in.values[i]);
  return over;
}

bool decode_block(const HalfBlock& in, HalfInput& out) {
  std::uint16_t bad = 0;
  for (std::size_t i = 0; i < kHalves; ++i)
    bad = std::uint16_t(bad | (half_is_finite(in.values[i]) ? 0 : 1));
  for (std::size_t i = 0; i < kHalves; ++i) out.values[i] = from_half(in.values[i]);
  return bad == 0;
}

}  // namespace

CodecEntry Fp16::entry() {
  return codec_entry<Fp16>(
      {.name = "fp16",
       .summary = "IEEE half precision, 2 bytes each, nearest even",
       .traits = {.algebra = Algebra::reencode, .unbiased = false},
       .cost = {
           .bytes = "2 d",
           .error = "relative at most 2^-11 from 6.2e-5 up; above 65504 clamped and counted"}});
}

Buffer Fp16::encode(const CodecKey&, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  Buffer bytes(encoded_size(values.size()));
  for (std::size_t done = 0; done < values.size(); done += kHalves) {
    const std::size_t count = std::min(kHalves, values.size() - done);
    HalfInput block;
    HalfBlock halves;
    std::memcpy(block.values, &values[done], 4 * count);
    clamped_ += encode_block(block, halves);
    std::memcpy(&bytes[2 * done], halves.values, 2 * count);
  }
  return bytes;
}

Status Fp16::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("fp16", at, in.size(), encoded_size(out.size())));
  for (std::size_t done = 0; done < out.size(); done += kHalves) {
    const std::size_t count = std::min(kHalves, out.size() - done);
    HalfBlock halves;
    HalfInput block;
    std::memcpy(halves.values, &in[2 * done], 2 * count);
    if (!decode_block(halves, block)) {
      const auto* bad = std::find_if_not(halves.values, halves.values + count, half_is_finite);
      const auto index = std::uint64_t(bad - halves.values);
      return bad_value("fp16", at.offset + done + index, "is not finite");
    }
    std::memcpy(&out[done], block.values, 4 * count);
  }
  return Ok{};
}

void Fp16::state(Archive& ar) { ar(clamped_); }

}  // namespace longhaul::codec
