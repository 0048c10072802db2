// Codecs of 2 bytes a value, little endian, rounded to nearest even:
//
//   fp16  IEEE binary16. Magnitudes over 65504 are written as 65504 and counted. Relative error
//         <= 2^-11 from 2^-14 = 6.1e-5 up, absolute error <= 2^-25 below.
//   bf16  the upper 16 bits of a float. Magnitudes that would round to infinity are written as the
//         largest it has and counted. Relative error <= 2^-8 for normal floats, absolute error
//         <= 2^-134 below.
#include <algorithm>
#include <bit>
#include <cstring>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/half.h"
#include "longhaul/codec/kernel.h"

namespace longhaul::codec {
namespace {

// `Kernels`: write() answers with how many were clamped, what is not finite among them; read() is
// false if one is not finite, and `out` has no meaning then.
template <class Kernels>
class TwoBytes final : public Codec {
 public:
  std::size_t encoded_size(std::size_t length) const override { return 2 * length; }

  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length);
    Buffer bytes(encoded_size(values.size()));
    const std::uint32_t over = Kernels::write(values.data(), values.size(), bytes.data());
    LH_CHECK(over == 0 || all_finite(values));
    clamped_ += over;
    return bytes;
  }

  Status decode(const CodecKey&, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    LH_TRY(expect_size(Kernels::kName, at, in.size(), encoded_size(out.size())));
    if (Kernels::read(in.data(), out.size(), out.data())) return Ok{};
    std::size_t i = 0;
    while (Kernels::read(&in[2 * i], 1, &out[i])) ++i;
    return bad_value(Kernels::kName, at.offset + i, "is not finite");
  }

  std::uint64_t clamped() const override { return clamped_; }
  void state(Archive& ar) override { ar(clamped_); }

 private:
  std::uint64_t clamped_ = 0;
};

struct Fp16Kernels {
  static constexpr std::string_view kName = "fp16";

  static LONGHAUL_KERNEL std::uint32_t write(const float* in, std::size_t count, std::byte* out) {
    std::uint32_t over = 0;
    for (std::size_t i = 0; i < count; ++i) {
      over += std::uint32_t(over_half(in[i]));
      const std::uint16_t half = to_half(in[i]);
      std::memcpy(out + 2 * i, &half, 2);
    }
    return over;
  }

  static LONGHAUL_KERNEL bool read(const std::byte* in, std::size_t count, float* out) {
    std::uint32_t bad = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, in + 2 * i, 2);
      bad |= std::uint32_t(!half_is_finite(half));
      out[i] = from_half(half);
    }
    return bad == 0;
  }
};

struct Bf16Kernels {
  static constexpr std::string_view kName = "bf16";
  static constexpr std::uint32_t kLargest = 0x7F7F;   // the largest finite one
  static constexpr std::uint32_t kOver = 0x7F7F8000;  // floats from here on round to infinity

  static LONGHAUL_KERNEL std::uint32_t write(const float* in, std::size_t count, std::byte* out) {
    std::uint32_t over = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(in[i]);
      const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
      over += magnitude >= kOver ? 1u : 0u;
      const std::uint32_t rounded = (magnitude + 0x7FFFu + ((magnitude >> 16) & 1u)) >> 16;
      const std::uint32_t sign = (bits >> 16) & 0x8000u;
      const auto upper = std::uint16_t(std::min(rounded, kLargest) | sign);
      std::memcpy(out + 2 * i, &upper, 2);
    }
    return over;
  }

  static LONGHAUL_KERNEL bool read(const std::byte* in, std::size_t count, float* out) {
    std::uint32_t bad = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t upper = 0;
      std::memcpy(&upper, in + 2 * i, 2);
      bad |= (upper & 0x7F80u) == 0x7F80u ? 1u : 0u;
      out[i] = std::bit_cast<float>(std::uint32_t(upper) << 16);
    }
    return bad == 0;
  }
};

}  // namespace

CodecEntry fp16() {
  return codec_entry<TwoBytes<Fp16Kernels>, fp16>(
      {.name = "fp16",
       .summary = "IEEE half precision, 2 bytes each, nearest even",
       .traits = {.algebra = Algebra::reencode, .unbiased = false},
       .cost = {
           .bytes = "2 d",
           .error = "relative at most 2^-11 from 6.2e-5 up; above 65504 clamped and counted"}});
}

CodecEntry bf16() {
  return codec_entry<TwoBytes<Bf16Kernels>, bf16>(
      {.name = "bf16",
       .summary = "the upper half of fp32, 2 bytes each, nearest even",
       .traits = {.algebra = Algebra::reencode, .unbiased = false},
       .cost = {.bytes = "2 d",
                .error = "relative at most 2^-8; above 3.39e38 clamped and counted"}});
}

}  // namespace longhaul::codec
