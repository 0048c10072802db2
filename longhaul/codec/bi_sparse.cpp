// bi_sparse: layers by size, as the public code INET-RC/GeoMX does between data centres. Layers of
// at least `size_bound` values are sparse both ways: deep gradient compression up (top_k of `ratio`
// with local momentum and masking; Lin et al., ICLR 2018), and what is not 0 in the mean down.
// Smaller ones are dense: as fp32 ("Bi-Sparse"), or as fp16 ("mixed-precision quantisation", MPQ).
//
// A range is cut at the boundaries of layers; dense neighbours are one cut. Cuts are written in
// order, sparse cuts with their number of bytes (u32) in front. The selection is exact, indices are
// compact, and a vector that is not the model's parameters is one layer (ours).
#include <algorithm>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"

namespace longhaul::codec {
namespace {

constexpr std::uint32_t kParameterRange = 0;  // of a vector's name

// A codec of the registry that writes contributions.
std::unique_ptr<Codec> made_of(const CodecEntry& entry, std::vector<Setting> keys = {}) {
  auto made =
      entry.make({.table = "codec", .entries = std::move(keys)}, {}, CodecUse::contribution);
  LH_CHECK(made);
  return *std::move(made);
}

// In the name of this codec: "bi_sparse: top_k: ...".
Error renamed(const Error& error) { return {error.kind, "bi_sparse: " + error.what}; }

class BiSparse final : public Codec {
 public:
  struct Config {
    double ratio = 0.01;
    std::uint64_t size_bound = 1000;
    std::string small = "fp32";

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(ratio, "share of a large layer's values that is sent", .max = 1,
                   .positive = true);
      LONGHAUL_KEY(size_bound, "layers of fewer values are dense", .max = 1e12);
      LONGHAUL_KEY(small, "how dense layers are written", .choices = {"fp32", "fp16"});
    }
  };

  BiSparse(const Config& config, const CodecSetting& where)
      : config_(config),
        layout_(where.place.layout),
        small_(made_of(config.small == "fp16" ? fp16() : fp32())),
        large_(made_of(top_k(), {{"ratio", {config.ratio}}})) {}

  // Returns a bound for any position of the range. Each layer takes at most its dense plus its
  // sparse size, its number of bytes (u32), and the minimum size of a list.
  std::size_t encoded_size(std::size_t length) const override {
    const std::size_t layers = layout_ ? layout_->layers().size() : 0;
    return small_->encoded_size(length) + large_->encoded_size(length) + 24 * (layers + 1);
  }

  std::size_t size_at(Range at) const override {
    std::size_t size = 0;
    for (const Cut& cut : cuts(kParameterRange, at)) size += size_of(cut);
    return size;
  }

  Buffer encode(const CodecKey& key, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    Buffer bytes;
    for (const Cut& cut : cuts(key.range, at)) {
      const auto part = values.subspan(cut.at.offset - at.offset, cut.at.length);
      const Buffer written = (cut.sparse ? large_ : small_)->encode(key, cut.at, part);
      if (cut.sparse) put(bytes, std::uint32_t(written.size()));
      bytes.insert(bytes.end(), written.begin(), written.end());
    }
    return bytes;
  }

  Status decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    Cursor cursor(in);
    for (const Cut& cut : cuts(key.range, at)) {
      std::optional<std::uint32_t> count = std::uint32_t(small_->encoded_size(cut.at.length));
      if (cut.sparse) count = cursor.number<std::uint32_t>();
      const auto part = count ? cursor.take(*count) : std::nullopt;
      if (!part) return expect_size("bi_sparse", at, in.size(), size_at(at));
      const Status read =
          (cut.sparse ? large_ : small_)
              ->decode(key, cut.at, *part, out.subspan(cut.at.offset - at.offset, cut.at.length));
      if (!read) return renamed(read.error());
    }
    const std::size_t read = in.size() - cursor.rest().size();
    return expect_size("bi_sparse", at, in.size(), read);
  }

  std::uint64_t clamped() const override { return small_->clamped(); }
  void state(Archive& ar) override { small_->state(ar); }

 private:
  struct Cut {
    Range at;
    bool sparse = false;
  };
  std::vector<Cut> cuts(std::uint32_t range, Range at) const {
    std::vector<Cut> cuts;
    const auto add = [&](std::uint64_t begin, std::uint64_t end, bool sparse) {
      begin = std::max(begin, at.offset), end = std::min(end, at.end());
      if (begin >= end) return;
      if (!cuts.empty() && !sparse && !cuts.back().sparse)
        cuts.back().at.length += end - begin;
      else
        cuts.push_back({{begin, end - begin}, sparse});
    };
    std::uint64_t known = at.offset;  // where layers end that say how they are written
    if (range == kParameterRange && layout_)
      for (const LayerRange& layer : layout_->layers()) {
        if (layer.role != LayerRange::Role::parameter || layer.range.offset >= at.end()) break;
        add(layer.range.offset, layer.range.end(), layer.range.length >= config_.size_bound);
        known = std::max(known, layer.range.end());
      }
    if (known < at.end()) add(known, at.end(), at.end() - known >= config_.size_bound);
    return cuts;
  }

  std::size_t size_of(const Cut& cut) const {
    return cut.sparse ? 4 + large_->encoded_size(cut.at.length)
                      : small_->encoded_size(cut.at.length);
  }

  const Config config_;
  const std::shared_ptr<const Layout> layout_;
  const std::unique_ptr<Codec> small_, large_;
};

}  // namespace

CodecEntry bi_sparse() {
  return codec_entry<BiSparse, bi_sparse>(
      {.name = "bi_sparse",
       .summary = "large layers sparse with local momentum, small ones dense; means sparse",
       .traits = {.algebra = Algebra::gather,
                  .unbiased = false,
                  .close = false,
                  .sparse = true,
                  .feedback = true,
                  .momentum = 0.9},
       .cost = {.bytes = "of a layer from 1,000 on as top_k, else 4 d",
                .error = "as top_k of the large layers",
                .state = "S: momentum"},
       .small = {
           {"ratio", {0.5}}, {"size_bound", {std::int64_t{100}}}, {"feedback_momentum", {0.2}}}});
}

}  // namespace longhaul::codec
