#include "longhaul/codec/bf16.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"

namespace longhaul::codec {
namespace {

constexpr std::size_t kUppers = 64;              // loops of a fixed length vectorise
constexpr std::uint32_t kLargestUpper = 0x7F7F;  // the largest finite one
// Magnitudes of floats from here on round to infinity.
constexpr std::uint32_t kOverUpper = 0x7F7F8000;

struct UpperInput {
  std::uint32_t bits[kUppers] = {};
};
struct UpperBlock {
  std::uint16_t values[kUppers] = {};
};

std::uint32_t round_block(const UpperInput& in, UpperBlock& out) {
  std::uint32_t over = 0;
  for (std::size_t i = 0; i < kUppers; ++i)
    over += (in.bits[i] & 0x7FFFFFFFu) >= kOverUpper ? 1u : 0u;
  for (std::size_t i = 0; i < kUppers; ++i) {
    const std::uint32_t magnitude = in.bits[i] & 0x7FFFFFFFu;
    const std::uint32_t rounded = (magnitude + 0x7FFFu + ((magnitude >> 16) & 1u)) >> 16;
    const std::uint32_t sign = (in.bits[i] >> 16) & 0x8000u;
    out.values[i] = std::uint16_t(std::min(rounded, kLargestUpper) | sign);
  }
  return over;
}

bool widen_block(const UpperBlock& in, UpperInput& out) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < kUppers; ++i) {
    bad |= (in.values[i] & 0x7F80u) == 0x7F80u ? 1u : 0u;
    out.bits[i] = std::uint32_t(in.values[i]) << 16;
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
  LH_CHECK(values.size() == at.length && all_finite(values));
  Buffer bytes(encoded_size(values.size()));
  for (std::size_t done = 0; done < values.size(); done += kUppers) {
    const std::size_t count = std::min(kUppers, values.size() - done);
    UpperInput block;
    UpperBlock uppers;
    std::memcpy(block.bits, &values[done], 4 * count);
    clamped_ += round_block(block, uppers);
    std::memcpy(&bytes[2 * done], uppers.values, 2 * count);
  }
  return bytes;
}

Status Bf16::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("bf16", at, in.size(), encoded_size(out.size())));
  for (std::size_t done = 0; done < out.size(); done += kUppers) {
    const std::size_t count = std::min(kUppers, out.size() - done);
    UpperBlock uppers;
    UpperInput block;
    std::memcpy(uppers.values, &in[2 * done], 2 * count);
    const bool finite = widen_block(uppers, block);
    std::memcpy(&out[done], block.bits, 4 * count);
    if (!finite) return expect_finite("bf16", {at.offset + done, count}, out.subspan(done, count));
  }
  return Ok{};
}

void Bf16::state(Archive& ar) { ar(clamped_); }

}  // namespace longhaul::codec
