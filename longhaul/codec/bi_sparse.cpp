#include "longhaul/codec/bi_sparse.h"

#include <algorithm>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/cursor.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/fp16.h"
#include "longhaul/codec/fp32.h"
#include "longhaul/codec/top_k.h"

namespace longhaul::codec {
namespace {

constexpr std::uint32_t kParameterRange = 0;  // of a vector's name

std::unique_ptr<Codec> dense_codec(const std::string& kind) {
  if (kind == "fp16") return std::make_unique<Fp16>();
  return std::make_unique<Fp32>();
}

// In the name of this codec: "bi_sparse: top_k: ...".
Error renamed(const Error& error) { return {error.kind, "bi_sparse: " + error.what}; }

}  // namespace

CodecEntry BiSparse::entry() {
  return codec_entry<BiSparse>(
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

BiSparse::BiSparse(const Config& config, const CodecSetting& where)
    : config_(config),
      layout_(where.place.layout),
      small_(dense_codec(config.small)),
      large_(std::make_unique<TopK>(TopK::Config{.ratio = config.ratio})) {}

std::vector<BiSparse::Cut> BiSparse::cuts(std::uint32_t range, Range at) const {
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

std::size_t BiSparse::size_of(const Cut& cut) const {
  return cut.sparse ? 4 + large_->encoded_size(cut.at.length) : small_->encoded_size(cut.at.length);
}

std::size_t BiSparse::size_at(Range at) const {
  std::size_t size = 0;
  for (const Cut& cut : cuts(kParameterRange, at)) size += size_of(cut);
  return size;
}

// Wherever the stretch lies: no layer takes more than it would dense and sparse, but for the count
// of its bytes, and for what a list takes at least.
std::size_t BiSparse::encoded_size(std::size_t length) const {
  const std::size_t layers = layout_ ? layout_->layers().size() : 0;
  return small_->encoded_size(length) + large_->encoded_size(length) + 24 * (layers + 1);
}

Buffer BiSparse::encode(const CodecKey& key, Range at, std::span<const float> values) {
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

Status BiSparse::decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                        std::span<float> out) const {
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

}  // namespace longhaul::codec
