#pragma once
// int8: blocks of 256 values from the start of the stretch; each block is a scale s = max abs / 127
// (fp32) and one signed byte q = nearest even of x / s per value. d + 4 ceil(d/256) bytes. Error
// <= s/2 (and rounding of the fp32 product); a block of zeros is exact.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class Int8 final : public Codec {
 public:
  static CodecEntry entry();
  static constexpr std::size_t kBlock = 256;

  std::size_t encoded_size(std::size_t length) const override {
    return length + 4 * (length / kBlock + (length % kBlock != 0 ? 1 : 0));
  }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
};

}  // namespace longhaul::codec
