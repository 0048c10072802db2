// top_k: the share of the values that is largest in magnitude, as fp32, with a compact list of
// their places (Aji and Heafield, "Sparse communication for distributed gradient descent", EMNLP
// 2017; with error feedback, Stich et al., "Sparsified SGD with memory", NeurIPS 2018). For a range
// of d values, k = max(1, ceil(ratio d)); of equal magnitudes the first; zeros and values below
// `threshold` are left out. Error: squared at most (1 - k/d) n2^2 without a threshold.
#include "longhaul/codec/entry.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {
namespace {

class TopK final : public Codec {
 public:
  struct Config {
    double ratio = 0.01;
    double threshold = 0;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(ratio, "share of the values that is sent", .max = 1, .positive = true);
      LONGHAUL_KEY(threshold, "smaller magnitudes are not sent; with ratio = 1 all others",
                   .min = 0, .max = 1e30);
    }
  };

  explicit TopK(const Config& config) : config_(config) {}

  std::size_t encoded_size(std::size_t length) const override {
    return most_largest_bytes(length, count_of(config_.ratio, length));
  }

  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    return write_largest(values, count_of(config_.ratio, values.size()), float(config_.threshold));
  }

  Status decode(const CodecKey&, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    return read_values("top_k", at, count_of(config_.ratio, out.size()), Cursor(in), out);
  }

 private:
  const Config config_;
};

}  // namespace

CodecEntry top_k() {
  return codec_entry<TopK, top_k>(
      {.name = "top_k",
       .summary = "the values of largest magnitude, with a compact list of their places",
       .traits = {.algebra = Algebra::gather,
                  .unbiased = false,
                  .close = false,
                  .sparse = true,
                  .feedback = true},
       .cost = {.bytes = "4 k + 5 + a list of k, k = d/100: about 0.051 d",
                .error = "squared: at most (1 - k/d) n2^2"},
       .small = {{"ratio", {0.5}}}});
}

}  // namespace longhaul::codec
