#pragma once
// top_k: the share of the values that is largest in magnitude, as fp32, with a compact list of
// their places (Aji and Heafield, "Sparse communication for distributed gradient descent", EMNLP
// 2017; with error feedback, Stich et al., "Sparsified SGD with memory", NeurIPS 2018). Of a
// stretch of d values k = max(1, ceil(ratio d)), of equal magnitudes those in front; zeros and what
// is below `threshold` are left out. Error: squared at most (1 - k/d) n2^2 without a threshold.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class TopK final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    double ratio = 0.01;
    double threshold = 0;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(ratio, .doc = "share of the values that is sent", .max = 1, .positive = true);
      LONGHAUL_FIELD(threshold, .doc = "smaller magnitudes are not sent; with ratio = 1 all others",
                     .min = 0, .max = 1e30);
    }
  };

  explicit TopK(const Config& config) : config_(config) {}

  std::size_t encoded_size(std::size_t length) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;

 private:
  const Config config_;
};

}  // namespace longhaul::codec
