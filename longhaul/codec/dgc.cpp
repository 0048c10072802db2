#include "longhaul/codec/dgc.h"

#include <cmath>

#include "longhaul/codec/entry.h"
#include "longhaul/codec/select.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {

CodecEntry Dgc::entry() {
  return codec_entry<Dgc>(
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

double Dgc::ratio_of(Round round) const {
  if (round >= config_.warm_up) return config_.ratio;
  return std::pow(config_.ratio, double(1 + round) / double(1 + config_.warm_up));
}

std::size_t Dgc::encoded_size(std::size_t length) const {
  const std::size_t count = count_of(ratio_of(0), length);
  return most_list_bytes(length, count) + 4 * count;
}

Buffer Dgc::encode(const CodecKey& key, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  const auto indices = largest(values, count_of(ratio_of(key.round), values.size()), 0);
  Buffer bytes;
  write_list(indices, values.size(), bytes);
  write_values(indices, values, bytes);
  return bytes;
}

Status Dgc::decode(const CodecKey& key, Range at, std::span<const std::byte> in,
                   std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  return read_values("dgc", at, count_of(ratio_of(key.round), out.size()), Cursor(in), out);
}

}  // namespace longhaul::codec
