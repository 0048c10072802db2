#pragma once
// fp16: IEEE binary16, little endian, 2 bytes a value, rounded to nearest even. Magnitudes over
// 65504 are written as 65504 and counted. Relative error <= 2^-11 from 2^-14 = 6.1e-5 up,
// absolute error <= 2^-25 below.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class Fp16 final : public Codec {
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
