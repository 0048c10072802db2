#pragma once
// fp32: the values as they stand, little endian, 4 bytes each. Loses nothing.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class Fp32 final : public Codec {
 public:
  static CodecEntry entry();
  std::size_t encoded_size(std::size_t length) const override { return 4 * length; }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
};

}  // namespace longhaul::codec
