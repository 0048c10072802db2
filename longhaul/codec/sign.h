#pragma once
// sign: one bit a value and a scale a block of values (Bernstein et al., "signSGD", ICML 2018; with
// the scale and error feedback, Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019).
//
//   l1      s = sum |x| / b of the block's b values;  decoded: s sgn(x), sgn 0 = +1
//   means   two scales, the mean of the values >= 0 and that of the others; decoded: that of its
//           side (Seide et al., "1-bit stochastic gradient descent", Interspeech 2014)
//
// Blocks of fixed length in place of layers are our choice: the codec knows no layers. Error: the
// squared norm of what is lost is n2^2 - n1^2/b of a block, n1 and n2 its norms.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class Sign final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    std::string scale = "l1";
    std::uint32_t block = 1024;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(scale,
                     .doc =
                         "l1: the mean magnitude of a block; means: that of its values from 0 "
                         "up and that of those below",
                     .choices = {"l1", "means"});
      LONGHAUL_FIELD(block, .doc = "values that share a scale; a multiple of 8", .min = 8,
                     .max = 1 << 20);
    }
  };
  static Status check(const Config&, const Settings&);

  explicit Sign(const Config& config) : means_(config.scale == "means"), block_(config.block) {}

  std::size_t encoded_size(std::size_t length) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;

 private:
  const bool means_;
  const std::size_t block_;
};

}  // namespace longhaul::codec
