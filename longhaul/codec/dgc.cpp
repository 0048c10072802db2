// dgc: deep gradient compression (Lin et al., ICLR 2018): top_k of a thousandth, with momentum that
// each site keeps for itself (feedback.h), error feedback, and a warm-up in which more
// is sent: in round r of `warm_up` rounds the share is ratio^((1 + r) / (1 + warm_up)), so that it
// falls by the same factor each round (the paper: from 25 % to 0.1 % in four epochs, likewise).
//
// Rounds are those of the vector's key: of an overlay's exchange the round, of a channel the number
// of the vector. The selection is exact (select.h), and gradients are not clipped.
#include <cmath>

#include "longhaul/codec/entry.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {
namespace {

class Dgc final : public Codec {
 public:
  struct Config {
    double ratio = 0.001;
    std::uint32_t warm_up = 0;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(ratio, "share of the values that is sent", .max = 1, .positive = true);
      LONGHAUL_KEY(warm_up, "rounds in which more is sent, less in each", .max = 1 << 30);
    }
  };

  explicit Dgc(const Config& config) : config_(config) {}

  // With a warm-up that of its first round: vectors of later rounds are shorter.
  std::size_t encoded_size(std::size_t length) const override {
    return most_largest_bytes(length, count_of(ratio_of(0), length));
  }

  Buffer encode(const CodecKey& key, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    return write_largest(values, count_of(ratio_of(key.round), values.size()));
  }

  Status decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    return read_values("dgc", at, count_of(ratio_of(key.round), out.size()), Cursor(in), out);
  }

 private:
  double ratio_of(Round round) const {
    if (round >= config_.warm_up) return config_.ratio;
    return std::pow(config_.ratio, double(1 + round) / double(1 + config_.warm_up));
  }

  const Config config_;
};

}  // namespace

CodecEntry dgc() {
  return codec_entry<Dgc, dgc>(
      {.name = "dgc",
       .summary = "a thousandth of the values, with local momentum, masking and warm-up",
       .traits = {.algebra = Algebra::gather,
                  .unbiased = false,
                  .close = false,
                  .sparse = true,
                  .feedback = true,
                  .momentum = 0.9},
       .cost = {.bytes = "4 k + 5 + a list of k, k = d/1000: about 0.006 d",
                .error = "squared: at most (1 - k/d) n2^2",
                .state = "S: momentum"},
       .small = {{"ratio", {0.5}}, {"feedback_momentum", {0.2}}}});
}

}  // namespace longhaul::codec
