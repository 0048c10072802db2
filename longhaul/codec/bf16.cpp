#include "longhaul/codec/bf16.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/kernel.h"

namespace longhaul::codec {
namespace {

constexpr std::uint32_t kLargestUpper = 0x7F7F;  // the largest finite one
// Magnitudes of floats from here on round to infinity.
constexpr std::uint32_t kOverUpper = 0x7F7F8000;

// Answers with how many were clamped. What is not finite counts as clamped too.
LONGHAUL_KERNEL std::uint32_t write_uppers(const float* in, std::size_t count, std::byte* out) {
  std::uint32_t over = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(in[i]);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    over += magnitude >= kOverUpper ? 1u : 0u;
    const std::uint32_t rounded = (magnitude + 0x7FFFu + ((magnitude >> 16) & 1u)) >> 16;
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const auto upper = std::uint16_t(std::min(rounded, kLargestUpper) | sign);
    std::memcpy(out + 2 * i, &upper, 2);
  }
  return over;
}

// False: one of them is not finite.
LONGHAUL_KERNEL bool read_uppers(const std::byte* in, std::size_t count, float* out) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t upper = 0;
    std::memcpy(&upper, in + 2 * i, 2);
    bad |= (upper & 0x7F80u) == 0x7F80u ? 1u : 0u;
    out[i] = std::bit_cast<float>(std::uint32_t(upper) << 16);
  }
  return bad == 0;
}

}  // namespace

CodecEntry Bf16::entry() {
  return codec_entry<Bf16>(
      {.name = "bf16",
       .summary = "the upper half of fp32, 2 bytes each, nearest even",
       .traits = {.algebra = Algebra::reencode, .unbiased = false},
       .cost = {.bytes = "2 d",
                .error = "relative at most 2^-8; above 3.39e38 clamped and counted"}});
}

Buffer Bf16::encode(const CodecKey&, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length);
  Buffer bytes(encoded_size(values.size()));
  const std::uint32_t over = write_uppers(values.data(), values.size(), bytes.data());
  LH_CHECK(over == 0 || all_finite(values));
  clamped_ += over;
  return bytes;
}

Status Bf16::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("bf16", at, in.size(), encoded_size(out.size())));
  if (read_uppers(in.data(), out.size(), out.data())) return Ok{};
  return expect_finite("bf16", at, out);
}

void Bf16::state(Archive& ar) { ar(clamped_); }

}  // namespace longhaul::codec
