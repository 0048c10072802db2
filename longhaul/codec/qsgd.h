#pragma once
// qsgd: levels of stochastic rounding (Alistarh et al., "QSGD: communication-efficient SGD via
// gradient quantization and encoding", NeurIPS 2017, section 3.1). Buckets of `bucket` values from
// the start of the stretch; of each its norm n2 as fp32, and a whole level l of `bits` bits a
// value:
//
//   l = s |x| / n2, s = 2^(bits-1) - 1, rounded up with the probability of its fraction, with the
//   sign of x;  decoded: n2 l / s
//
// Unbiased; E |x - q|^2 <= min(b/s^2, sqrt(b)/s) n2^2 for a bucket of b values. Levels are written
// in a fixed number of bits in place of the paper's Elias coding (our choice): sizes are known
// before. Random numbers are those of draws.h.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

struct CodecSetting;

class Qsgd final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    std::uint32_t bits = 4;
    std::uint32_t bucket = 512;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(bits, .doc = "of a level: 2, 4 or 8", .min = 2, .max = 8);
      LONGHAUL_FIELD(bucket, .doc = "values that share a norm; a multiple of 8", .min = 8,
                     .max = 1 << 20);
    }
  };
  static Status check(const Config&, const Settings&);

  Qsgd(const Config&, const CodecSetting&);

  std::size_t encoded_size(std::size_t length) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;

 private:
  std::size_t packed_size(std::size_t length) const { return (length * bits_ + 7) / 8; }

  const std::uint64_t seed_;
  const std::size_t bits_, bucket_;
  const std::uint32_t levels_;
};

}  // namespace longhaul::codec
