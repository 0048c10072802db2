// q_top_k: the largest values of each chunk, in four levels, as in SparseLoCo ("Communication
// efficient LLM pre-training with SparseLoCo", arXiv 2508.15706: top-k in chunks, 2 bits a value).
// Chunks have `chunk` values from the start of the range; ceil(ratio chunk) values of each are
// kept. The kept values of a range have mean m and standard deviation s. They fall in four bins,
// with edges at m - 1.5 s, m and m + 1.5 s (bins that are not in the paper). A value becomes the
// mean of its bin. The bytes are a compact list of places, the four means as fp32, and two bits a
// value.
#include <algorithm>
#include <array>
#include <cmath>

#include "longhaul/codec/entry.h"
#include "longhaul/codec/norms.h"
#include "longhaul/codec/select.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {
namespace {

constexpr std::size_t kFour = 4;
constexpr double kWidth = 1.5;  // width of a bin, in standard deviations: four are 3 to each side

struct Bins {
  std::array<float, kFour> means = {};
  std::array<double, kFour - 1> edges = {};

  std::uint32_t of(float value) const {
    std::uint32_t bin = 0;
    for (const double edge : edges) bin += double(value) >= edge ? 1u : 0u;
    return bin;
  }
};

Bins bins_of(std::span<const float> kept) {
  const double count = double(kept.size());
  const double mean = sum_of(kept, [](double v) { return v; }) / count;
  const double variance =
      sum_of(kept, [mean](double v) { return (v - mean) * (v - mean); }) / count;
  const double width = kWidth * std::sqrt(variance);
  Bins bins;
  bins.edges = {mean - width, mean, mean + width};
  std::array<double, kFour> sums{}, counts{};
  for (const float value : kept) {
    const std::uint32_t bin = bins.of(value);
    sums[bin] += double(value);
    ++counts[bin];
  }
  for (std::size_t bin = 0; bin < kFour; ++bin)
    if (counts[bin] > 0) bins.means[bin] = float(sums[bin] / counts[bin]);
  return bins;
}

class QTopK final : public Codec {
 public:
  struct Config {
    double ratio = 1.0 / 64;
    std::uint32_t chunk = 4096;
    bool mean_of_senders = false;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(ratio, "share of a chunk's values that is sent", .max = 1, .positive = true);
      LONGHAUL_KEY(chunk, "values among which the largest are chosen", .min = 1, .max = 1 << 24);
      LONGHAUL_KEY(mean_of_senders, "a value's mean is over the sites that sent it, not over all");
    }
  };

  explicit QTopK(const Config& config) : config_(config) {}

  std::size_t encoded_size(std::size_t length) const override {
    const std::size_t count = most(length);
    return most_list_bytes(length, count) + sizeof(Bins::means) + (count + 3) / 4;
  }

  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    std::vector<std::uint32_t> indices;
    for (std::size_t done = 0; done < values.size(); done += config_.chunk) {
      const std::size_t length = std::min<std::size_t>(config_.chunk, values.size() - done);
      for (const std::uint32_t index :
           largest(values.subspan(done, length), count_of(config_.ratio, length), 0))
        indices.push_back(std::uint32_t(done) + index);
    }
    Buffer bytes;
    bytes.reserve(encoded_size(values.size()));
    write_list(indices, values.size(), bytes);
    if (indices.empty()) return bytes;
    std::vector<float> kept(indices.size());
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = values[indices[i]];
    const Bins bins = bins_of(kept);
    put(bytes, bins.means);
    for (std::size_t i = 0; i < kept.size(); i += 4) {
      std::uint32_t byte = 0;
      for (std::size_t k = 0; k < std::min<std::size_t>(4, kept.size() - i); ++k)
        byte |= bins.of(kept[i + k]) << (2 * k);
      bytes.push_back(std::byte(byte));
    }
    return bytes;
  }

  Status decode(const CodecKey&, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    Cursor cursor(in);
    LH_LET(indices, read_list("q_top_k", at, most(out.size()), cursor));
    const std::size_t count = indices.size();
    LH_TRY(expect_size("q_top_k", at, cursor.rest().size(),
                       count == 0 ? 0 : sizeof(Bins::means) + (count + 3) / 4));
    std::ranges::fill(out, 0.f);
    if (count == 0) return Ok{};
    const auto means = *cursor.number<std::array<float, kFour>>();
    if (!all_finite(means))
      return bad_value("q_top_k", at.offset + indices.front(), "has a level that is not finite");
    for (std::size_t i = 0; i < count; ++i)
      out[indices[i]] = means[(unsigned(cursor.rest()[i / 4]) >> (2 * (i % 4))) & 3u];
    return Ok{};
  }

  bool mean_of_senders() const override { return config_.mean_of_senders; }

 private:
  std::size_t most(std::size_t length) const {
    const std::size_t chunk = config_.chunk, rest = length % chunk;
    return length / chunk * count_of(config_.ratio, chunk) +
           (rest > 0 ? count_of(config_.ratio, rest) : 0);
  }

  const Config config_;
};

}  // namespace

CodecEntry q_top_k() {
  return codec_entry<QTopK, q_top_k>(
      {.name = "q_top_k",
       .summary = "the largest values of each chunk in four levels, as SparseLoCo",
       .traits = {.algebra = Algebra::gather,
                  .unbiased = false,
                  .close = false,
                  .sparse = true,
                  .feedback = true},
       .cost = {.bytes = "k/4 + 21 + a list of k, k = d/64: about 0.022 d",
                .error = "squared: at most (1 - k/d) n2^2, and the spread within four bins"},
       .small = {{"ratio", {0.5}}}});
}

}  // namespace longhaul::codec
