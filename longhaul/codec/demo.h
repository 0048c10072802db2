#pragma once
// demo: the largest coefficients of a cosine transform (Peng et al., "DeMo: decoupled momentum
// optimization", arXiv 2411.19870). Chunks of `chunk` values from the start of the stretch, the
// last may be shorter; of each its orthonormal DCT-II C; of all C of the stretch the max(1,
// ceil(ratio d)) of largest magnitude, as fp32 with a compact list of their places; decoded: the
// inverse transform of those, 0 elsewhere. The transform keeps norms, so the error is that of
// top_k: squared at most (1 - k/d) n2^2.
//
// The paper cuts each dimension of a layer and chooses within each chunk; a codec sees one flat
// vector, so chunks are of that, and the choice is among all of a stretch (ours). Its momentum D is
// the residual of error feedback with feedback_decay = 0.999 around this codec.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class Demo final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    double ratio = 1.0 / 128;
    std::uint32_t chunk = 64;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(ratio, .doc = "share of the coefficients that is sent", .max = 1,
                     .positive = true);
      LONGHAUL_FIELD(chunk, .doc = "values that are transformed together", .min = 1, .max = 256);
    }
  };

  explicit Demo(const Config& config) : config_(config) {}

  std::size_t encoded_size(std::size_t length) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;

 private:
  const Config config_;
};

}  // namespace longhaul::codec
