#pragma once
// The format of sparse codecs for values of which most are 0: a count (u32), the indices of the
// nonzero values (indices.h), and the codec's encoding of these values.
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/indices.h"
#include "longhaul/codec/select.h"

namespace longhaul::codec {

// Returns the maximum bytes of the count and the indices.
inline std::size_t most_list_bytes(std::uint64_t length, std::uint64_t count) {
  return 4 + most_index_bytes(length, count);
}
inline void write_list(std::span<const std::uint32_t> indices, std::uint64_t length, Buffer& out) {
  put(out, std::uint32_t(indices.size()));
  write_indices(indices, length, out);
}

// Returns Malformed, with the codec's name, unless the bytes are a list of at most `most` indices
// into the range.
inline Result<std::vector<std::uint32_t>> read_list(std::string_view codec, Range at,
                                                    std::uint64_t most, Cursor& in) {
  const auto count = in.number<std::uint32_t>();
  if (!count || *count > most)
    return malformed(fmt::format("{}: no count of at most {} for the {} values from {} on", codec,
                                 most, at.length, at.offset));
  auto indices = read_indices(in, at.length, *count);
  if (!indices)
    return malformed(fmt::format("{}: for the {} values from {} on a {}", codec, at.length,
                                 at.offset, indices.error().what));
  return indices;
}

// Reads a list that is followed by exactly one fp32 for each index. Fills `out` with the values,
// and with 0 elsewhere.
inline Status read_values(std::string_view codec, Range at, std::uint64_t most, Cursor in,
                          std::span<float> out) {
  LH_LET(indices, read_list(codec, at, most, in));
  LH_TRY(expect_size(codec, at, in.rest().size(), 4 * indices.size()));
  std::ranges::fill(out, 0.f);
  for (const std::uint32_t index : indices) {
    const float value = *in.number<float>();
    if (!std::isfinite(value)) return bad_value(codec, at.offset + index, "is not finite");
    out[index] = value;
  }
  return Ok{};
}

inline void write_values(std::span<const std::uint32_t> indices, std::span<const float> values,
                         Buffer& out) {
  const std::size_t begin = out.size();
  out.resize(begin + 4 * indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i)
    std::memcpy(&out[begin + 4 * i], &values[indices[i]], 4);
}

// Returns the maximum bytes of a list of `count` values.
inline std::size_t most_largest_bytes(std::uint64_t length, std::uint64_t count) {
  return most_list_bytes(length, count) + 4 * count;
}
// Writes the `count` values of largest magnitude, at least `least`, for read_values.
inline Buffer write_largest(std::span<const float> values, std::size_t count, float least = 0) {
  const auto indices = largest(values, count, least);
  Buffer bytes;
  bytes.reserve(most_largest_bytes(values.size(), count));
  write_list(indices, values.size(), bytes);
  write_values(indices, values, bytes);
  return bytes;
}

}  // namespace longhaul::codec
