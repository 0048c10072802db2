#include "longhaul/codec/random_k.h"

#include <algorithm>
#include <cfloat>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/cursor.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/select.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {

CodecEntry RandomK::entry() {
  return codec_entry<RandomK>(
      {.name = "random_k",
       .summary = "a random share of the values, at places that all nodes draw alike",
       .traits = {.algebra = Algebra::add, .close = false, .sparse = true, .feedback = true},
       .cost = {.bytes = "4 k, k = d/100", .error = "squared: (1 - k/d) n2^2 in the mean"},
       .small = {{"ratio", {0.9}}}});
}

RandomK::RandomK(const Config& config, const CodecSetting& where)
    : ratio_(config.ratio),
      seed_(where.place.seed),
      scaled_(where.use == CodecUse::contribution && !where.feedback) {}

std::size_t RandomK::encoded_size(std::size_t length) const { return 4 * count_of(ratio_, length); }

std::vector<std::uint32_t> RandomK::places(const CodecKey& key, Range at) const {
  CodecKey common = key;
  common.origin = 0;
  return random_places(Draws(seed_, common), at, count_of(ratio_, at.length));
}

Buffer RandomK::encode(const CodecKey& key, Range at, std::span<const float> values) {
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

Status RandomK::decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                       std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("random_k", at, in.size(), encoded_size(out.size())));
  std::fill(out.begin(), out.end(), 0.f);
  Cursor cursor(in);
  for (const std::uint32_t place : places(key, at)) out[place] = *cursor.number<float>();
  return expect_finite("random_k", at, out);
}

}  // namespace longhaul::codec
