#pragma once
// dgc: deep gradient compression (Lin et al., ICLR 2018): top_k of a thousandth, with momentum that
// each site keeps for itself (momentum_correction.h), error feedback, and a warm-up in which more
// is sent: in round r of `warm_up` rounds the share is ratio^((1 + r) / (1 + warm_up)), so that it
// falls by the same factor each round (the paper: from 25 % to 0.1 % in four epochs, likewise).
//
// Rounds are those of the vector's key: of an overlay's exchange the round, of a channel the number
// of the vector. The selection is exact (select.h), and gradients are not clipped.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class Dgc final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    double ratio = 0.001;
    std::uint32_t warm_up = 0;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(ratio, .doc = "share of the values that is sent", .max = 1, .positive = true);
      LONGHAUL_FIELD(warm_up, .doc = "rounds in which more is sent, less in each", .max = 1 << 30);
    }
  };

  explicit Dgc(const Config& config) : config_(config) {}

  // With a warm-up that of its first round: vectors of later rounds are shorter.
  std::size_t encoded_size(std::size_t length) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;

 private:
  double ratio_of(Round) const;

  const Config config_;
};

}  // namespace longhaul::codec
