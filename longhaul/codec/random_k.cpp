// random_k: a random share of the values, the same places at all nodes. So only the values are
// sent, and nodes can add encoded vectors (Stich et al., "Sparsified SGD with memory", NeurIPS
// 2018; Konecny et al., "Federated learning: strategies for improving communication efficiency",
// 2016, "random mask"). A range of d values has k = max(1, ceil(ratio d)) places, which draws.h
// draws from the job's seed, (round, group, range) and the bounds.
//
// With error feedback values are sent unchanged: squared error (1 - k/d) n2^2 in the mean. Without
// it, contributions are multiplied by d/k: unbiased, E |x - q|^2 = (d/k - 1) n2^2.
#include <algorithm>
#include <cfloat>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/select.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {
namespace {

class RandomK final : public Codec {
 public:
  struct Config {
    double ratio = 0.01;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(ratio, "share of the values that is sent", .max = 1, .positive = true);
    }
  };

  RandomK(const Config& config, const CodecSetting& where)
      : ratio_(config.ratio),
        seed_(where.place.seed),
        scaled_(where.use == CodecUse::contribution && !where.feedback) {}

  std::size_t encoded_size(std::size_t length) const override {
    return 4 * count_of(ratio_, length);
  }

  Buffer encode(const CodecKey& key, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    const auto places = this->places(key, at);
    Buffer bytes;
    if (!scaled_) {
      write_values(places, values, bytes);
      return bytes;
    }
    const float scale = places.empty() ? 1 : float(double(at.length) / double(places.size()));
    bytes.reserve(4 * places.size());
    for (const std::uint32_t place : places)
      put(bytes, std::clamp(values[place] * scale, -FLT_MAX, FLT_MAX));
    return bytes;
  }

  Status decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    LH_TRY(expect_size("random_k", at, in.size(), encoded_size(out.size())));
    std::ranges::fill(out, 0.f);
    Cursor cursor(in);
    for (const std::uint32_t place : places(key, at)) out[place] = *cursor.number<float>();
    return expect_finite("random_k", at, out);
  }

 private:
  std::vector<std::uint32_t> places(const CodecKey& key, Range at) const {
    CodecKey common = key;
    common.origin = 0;
    return random_places(Draws(seed_, common), at, count_of(ratio_, at.length));
  }

  const double ratio_;
  const std::uint64_t seed_;
  const bool scaled_;  // contributions, without error feedback
};

}  // namespace

CodecEntry random_k() {
  return codec_entry<RandomK, random_k>(
      {.name = "random_k",
       .summary = "a random share of the values, at places that all nodes draw identically",
       .traits = {.algebra = Algebra::add, .close = false, .sparse = true, .feedback = true},
       .cost = {.bytes = "4 k, k = d/100", .error = "squared: (1 - k/d) n2^2 in the mean"},
       .small = {{"ratio", {0.9}}}});
}

}  // namespace longhaul::codec
