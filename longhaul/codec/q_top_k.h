#pragma once
// q_top_k: the largest values of each chunk, in four levels: what SparseLoCo sends ("Communication
// efficient LLM pre-training with SparseLoCo", arXiv 2508.15706: top-k in chunks, 2 bits a value).
// Chunks of `chunk` values from the start of the stretch, of each ceil(ratio chunk) values. The
// kept values of a stretch fall in four bins, with edges at m - 1.5 s, m and m + 1.5 s, m their
// mean and s their standard deviation (these bins are our choice); a value becomes the mean of its
// bin. Sent are a compact list of places, the four means as fp32, and two bits a value.
#include "longhaul/core/registry.h"

namespace longhaul::codec {

class QTopK final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    double ratio = 1.0 / 64;
    std::uint32_t chunk = 4096;
    bool mean_of_senders = false;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(ratio, .doc = "share of a chunk's values that is sent", .max = 1,
                     .positive = true);
      LONGHAUL_FIELD(chunk, .doc = "values among which the largest are chosen", .min = 1,
                     .max = 1 << 24);
      LONGHAUL_FIELD(mean_of_senders,
                     .doc = "a value's mean is over the sites that sent it, not over all");
    }
  };

  explicit QTopK(const Config& config) : config_(config) {}

  std::size_t encoded_size(std::size_t length) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
  bool mean_of_senders() const override { return config_.mean_of_senders; }

 private:
  std::size_t most(std::size_t length) const;

  const Config config_;
};

}  // namespace longhaul::codec
