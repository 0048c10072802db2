#pragma once
// random_k: a random share of the values, the same places at all nodes, so that only the values are
// sent and sums may be formed on the way (Stich et al., "Sparsified SGD with memory", NeurIPS 2018;
// Konecny et al., "Federated learning: strategies for improving communication efficiency", 2016,
// "random mask"). Of a stretch of d values k = max(1, ceil(ratio d)), whose places are drawn by
// (job's seed, round, group, range, stretch) with draws.h.
//
// With error feedback values are sent as they are: squared error (1 - k/d) n2^2 in the mean.
// Without, contributions are multiplied by d/k: unbiased, E |x - q|^2 = (d/k - 1) n2^2.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

struct CodecSetting;

class RandomK final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    double ratio = 0.01;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(ratio, .doc = "share of the values that is sent", .max = 1, .positive = true);
    }
  };

  RandomK(const Config&, const CodecSetting&);

  std::size_t encoded_size(std::size_t length) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;

 private:
  std::vector<std::uint32_t> places(const CodecKey&, Range at) const;

  const double ratio_;
  const std::uint64_t seed_;
  const bool scaled_;  // contributions, without error feedback
};

}  // namespace longhaul::codec
