// demo: the largest coefficients of a cosine transform (Peng et al., "DeMo: decoupled momentum
// optimization", arXiv 2411.19870). Chunks have `chunk` values from the start of the range; the
// last may be shorter. Each is transformed by the orthonormal DCT-II. The max(1, ceil(ratio d))
// coefficients of largest magnitude in the range are sent as fp32, with a compact list of their
// places. The decoder transforms these back, with 0 elsewhere. The transform keeps norms, so the
// error is that of top_k: squared at most (1 - k/d) n2^2.
//
// The paper cuts each dimension of a layer and chooses within each chunk. A codec sees one flat
// vector, so here this is cut into chunks, and the choice is among all of a range. The paper's
// momentum D is the residual of error feedback with feedback_decay = 0.999 around this codec.
#include <algorithm>

#include "longhaul/codec/cosine.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {
namespace {

// Calls `transform` for the chunks of a range: with that of a whole chunk, and that of the rest.
void each_chunk(std::size_t length, std::size_t chunk, auto&& transform) {
  const std::size_t whole = length / chunk * chunk;
  if (whole > 0) {
    const CosineTransform of_chunk(chunk);
    for (std::size_t done = 0; done < whole; done += chunk) transform(of_chunk, done);
  }
  if (length > whole) transform(CosineTransform(length - whole), whole);
}

class Demo final : public Codec {
 public:
  struct Config {
    double ratio = 1.0 / 128;
    std::uint32_t chunk = 64;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(ratio, "share of the coefficients that is sent", .max = 1, .positive = true);
      LONGHAUL_KEY(chunk, "values that are transformed together", .min = 1, .max = 256);
    }
  };

  explicit Demo(const Config& config) : config_(config) {}

  std::size_t encoded_size(std::size_t length) const override {
    return most_largest_bytes(length, count_of(config_.ratio, length));
  }

  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    std::vector<float> coefficients(values.size());
    each_chunk(values.size(), config_.chunk, [&](const CosineTransform& cosine, std::size_t begin) {
      cosine.forward(values.subspan(begin, cosine.length()),
                     std::span(coefficients).subspan(begin, cosine.length()));
    });
    return write_largest(coefficients, count_of(config_.ratio, values.size()));
  }

  Status decode(const CodecKey&, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    std::vector<float> coefficients(out.size());
    LH_TRY(read_values("demo", at, count_of(config_.ratio, out.size()), Cursor(in), coefficients));
    each_chunk(out.size(), config_.chunk, [&](const CosineTransform& cosine, std::size_t begin) {
      const auto chunk = std::span(coefficients).subspan(begin, cosine.length());
      const auto to = out.subspan(begin, cosine.length());
      if (std::ranges::all_of(chunk, [](float c) { return c == 0; }))
        std::ranges::fill(to, 0.f);
      else
        cosine.inverse(chunk, to);
    });
    return Ok{};
  }

 private:
  const Config config_;
};

}  // namespace

CodecEntry demo() {
  return codec_entry<Demo, demo>(
      {.name = "demo",
       .summary = "the largest coefficients of a cosine transform of short chunks, as DeMo",
       .traits = {.algebra = Algebra::gather, .unbiased = false, .close = false, .feedback = true},
       .cost = {.bytes = "4 k + 5 + a list of k, k = d/128: about 0.041 d",
                .error = "squared: at most (1 - k/d) n2^2"},
       .small = {{"ratio", {0.5}}}});
}

}  // namespace longhaul::codec
