#include "longhaul/codec/top_k.h"

#include "longhaul/codec/entry.h"
#include "longhaul/codec/select.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {

CodecEntry TopK::entry() {
  return codec_entry<TopK>(
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

std::size_t TopK::encoded_size(std::size_t length) const {
  const std::size_t count = count_of(config_.ratio, length);
  return most_list_bytes(length, count) + 4 * count;
}

Buffer TopK::encode(const CodecKey&, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  const auto indices =
      largest(values, count_of(config_.ratio, values.size()), float(config_.threshold));
  Buffer bytes;
  bytes.reserve(encoded_size(values.size()));
  write_list(indices, values.size(), bytes);
  write_values(indices, values, bytes);
  return bytes;
}

Status TopK::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  return read_values("top_k", at, count_of(config_.ratio, out.size()), Cursor(in), out);
}

}  // namespace longhaul::codec
