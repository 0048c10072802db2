#pragma once
// sparse: fp32 of what is not 0, and a compact list of where it stands (indices.h); fp32 of all
// where that is shorter. Loses nothing. For models whose updates are sparse by themselves, and what
// means of sparse codecs are written with.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class Sparse final : public Codec {
 public:
  static CodecEntry entry();
  std::size_t encoded_size(std::size_t length) const override { return 1 + 4 * length; }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
};

}  // namespace longhaul::codec
