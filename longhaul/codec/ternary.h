#pragma once
// ternary: -1, 0 or +1 times the largest magnitude of a block (Wen et al., "TernGrad: ternary
// gradients to reduce communication in distributed deep learning", NeurIPS 2017, section 3.1).
// Blocks of `block` values from the start of the stretch; of each m = max |x| as fp32, and a trit t
// a value: the sign of x with probability |x| / m, else 0;  decoded: m t. Unbiased;
// E |x - q|^2 = sum |x| (m - |x|). Five trits make a byte, the first the lowest (our choice), and
// blocks stand in place of layers. The paper's clipping, which makes it biased, is left out.
// Random numbers are those of draws.h.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

struct CodecSetting;

class Ternary final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    std::uint32_t block = 1000;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(block, .doc = "values that share a scale; a multiple of 5", .min = 5,
                     .max = 1 << 20);
    }
  };
  static Status check(const Config&, const Settings&);

  Ternary(const Config&, const CodecSetting&);

  std::size_t encoded_size(std::size_t length) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;

 private:
  const std::uint64_t seed_;
  const std::size_t block_;
};

}  // namespace longhaul::codec
