#pragma once
// bi_sparse: layers by size, as the public code INET-RC/GeoMX does between data centres. Layers of
// at least `size_bound` values are sparse both ways: deep gradient compression up (top_k of `ratio`
// with local momentum and masking; Lin et al., ICLR 2018), and what is not 0 in the mean down.
// Smaller ones are dense: as fp32 ("Bi-Sparse"), or as fp16 ("mixed-precision quantisation", MPQ).
//
// A stretch is cut where layers meet, neighbours that are dense are one; each cut is written behind
// the last, sparse ones behind the count of their bytes (u32). The selection is exact, indices are
// compact, and a vector that is not the model's parameters is one layer (ours).
#include "longhaul/core/registry.h"

namespace longhaul::codec {

struct CodecSetting;

class BiSparse final : public Codec {
 public:
  static CodecEntry entry();
  struct Config {
    double ratio = 0.01;
    std::uint64_t size_bound = 1000;
    std::string small = "fp32";

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(ratio, .doc = "share of a large layer's values that is sent", .max = 1,
                     .positive = true);
      LONGHAUL_FIELD(size_bound, .doc = "layers of fewer values are dense", .max = 1e12);
      LONGHAUL_FIELD(small, .doc = "how dense layers are written", .choices = {"fp32", "fp16"});
    }
  };

  BiSparse(const Config&, const CodecSetting&);

  std::size_t encoded_size(std::size_t length) const override;
  std::size_t size_at(Range at) const override;
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
  std::uint64_t clamped() const override { return small_->clamped(); }
  void state(Archive& ar) override { small_->state(ar); }

 private:
  struct Cut {
    Range at;
    bool sparse = false;
  };
  std::vector<Cut> cuts(std::uint32_t range, Range at) const;
  std::size_t size_of(const Cut&) const;

  const Config config_;
  const std::shared_ptr<const Layout> layout_;
  const std::unique_ptr<Codec> small_, large_;
};

}  // namespace longhaul::codec
