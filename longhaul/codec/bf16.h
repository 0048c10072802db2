#pragma once
// bf16: the upper 16 bits of a float, rounded to nearest even, little endian, 2 bytes a value.
// Magnitudes that would round to infinity are written as the largest it has and counted. Relative
// error <= 2^-8 for normal floats, absolute error <= 2^-134 below.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class Bf16 final : public Codec {
 public:
  static CodecEntry entry();
  std::size_t encoded_size(std::size_t length) const override { return 2 * length; }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
  std::uint64_t clamped() const override { return clamped_; }
  void state(Archive&) override;

 private:
  std::uint64_t clamped_ = 0;
};

}  // namespace longhaul::codec
