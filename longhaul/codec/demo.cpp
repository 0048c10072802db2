#include "longhaul/codec/demo.h"

#include <algorithm>

#include "longhaul/codec/cosine.h"
#include "longhaul/codec/entry.h"
#include "longhaul/codec/select.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {
namespace {

// Both transforms that a stretch needs: of a whole chunk, and of what is left.
template <class Transform>
void each_chunk(std::size_t length, std::size_t chunk, Transform&& transform) {
  const std::size_t whole = length / chunk * chunk;
  if (whole > 0) {
    const CosineTransform of_chunk(chunk);
    for (std::size_t done = 0; done < whole; done += chunk) transform(of_chunk, done);
  }
  if (length > whole) transform(CosineTransform(length - whole), whole);
}

}  // namespace

CodecEntry Demo::entry() {
  return codec_entry<Demo>(
      {.name = "demo",
       .summary = "the largest coefficients of a cosine transform of short chunks, as DeMo",
       .traits = {.algebra = Algebra::gather, .unbiased = false, .close = false, .feedback = true},
       .cost = {.bytes = "4 k + 5 + a list of k, k = d/128: about 0.041 d",
                .error = "squared: at most (1 - k/d) n2^2"},
       .small = {{"ratio", {0.5}}}});
}

std::size_t Demo::encoded_size(std::size_t length) const {
  const std::size_t count = count_of(config_.ratio, length);
  return most_list_bytes(length, count) + 4 * count;
}

Buffer Demo::encode(const CodecKey&, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  std::vector<float> coefficients(values.size());
  each_chunk(values.size(), config_.chunk, [&](const CosineTransform& cosine, std::size_t begin) {
    cosine.forward(values.subspan(begin, cosine.length()),
                   std::span(coefficients).subspan(begin, cosine.length()));
  });
  const auto indices = largest(coefficients, count_of(config_.ratio, values.size()), 0);
  Buffer bytes;
  write_list(indices, values.size(), bytes);
  write_values(indices, coefficients, bytes);
  return bytes;
}

Status Demo::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  std::vector<float> coefficients(out.size());
  LH_TRY(read_values("demo", at, count_of(config_.ratio, out.size()), Cursor(in), coefficients));
  each_chunk(out.size(), config_.chunk, [&](const CosineTransform& cosine, std::size_t begin) {
    const auto chunk = std::span(coefficients).subspan(begin, cosine.length());
    const auto to = out.subspan(begin, cosine.length());
    if (std::all_of(chunk.begin(), chunk.end(), [](float c) { return c == 0; }))
      std::fill(to.begin(), to.end(), 0.f);
    else
      cosine.inverse(chunk, to);
  });
  return Ok{};
}

}  // namespace longhaul::codec
