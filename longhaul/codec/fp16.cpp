#include "longhaul/codec/fp16.h"

#include <cstring>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/half.h"
#include "longhaul/codec/kernel.h"

namespace longhaul::codec {
namespace {

// Writes the halves of `count` values; answers with how many were clamped. What is not finite
// counts as clamped too.
LONGHAUL_KERNEL std::uint32_t write_halves(const float* in, std::size_t count, std::byte* out) {
  std::uint32_t over = 0;
  for (std::size_t i = 0; i < count; ++i) {
    over += std::uint32_t(over_half(in[i]));
    const std::uint16_t half = to_half(in[i]);
    std::memcpy(out + 2 * i, &half, 2);
  }
  return over;
}

// False: one of them is not finite, and `out` has no meaning.
LONGHAUL_KERNEL bool read_halves(const std::byte* in, std::size_t count, float* out) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, in + 2 * i, 2);
    bad |= std::uint32_t(!half_is_finite(half));
    out[i] = from_half(half);
  }
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
  LH_CHECK(values.size() == at.length);
  Buffer bytes(encoded_size(values.size()));
  const std::uint32_t over = write_halves(values.data(), values.size(), bytes.data());
  LH_CHECK(over == 0 || all_finite(values));
  clamped_ += over;
  return bytes;
}

Status Fp16::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("fp16", at, in.size(), encoded_size(out.size())));
  if (read_halves(in.data(), out.size(), out.data())) return Ok{};
  for (std::size_t i = 0;; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, &in[2 * i], 2);
    if (!half_is_finite(half)) return bad_value("fp16", at.offset + i, "is not finite");
  }
}

void Fp16::state(Archive& ar) { ar(clamped_); }

}  // namespace longhaul::codec
