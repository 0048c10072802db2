#pragma once
// How sparse codecs write values of which most are 0: a count (u32), the indices of the others
// (indices.h), and what the codec makes of their values.
#include <span>
#include <string_view>
#include <vector>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/indices.h"

namespace longhaul::codec {

// Bytes of the count and the indices, at most.
inline std::size_t most_list_bytes(std::uint64_t length, std::uint64_t count) {
  return 4 + most_index_bytes(length, count);
}
void write_list(std::span<const std::uint32_t> indices, std::uint64_t length, Buffer& out);
// Malformed: no list of at most `most` indices into the stretch. The error names the codec.
Result<std::vector<std::uint32_t>> read_list(std::string_view codec, Range at, std::uint64_t most,
                                             Cursor& in);
// As read_list for a list that is followed by one fp32 for each index, and by nothing: fills `out`
// with them and with 0 elsewhere.
Status read_values(std::string_view codec, Range at, std::uint64_t most, Cursor in,
                   std::span<float> out);
void write_values(std::span<const std::uint32_t> indices, std::span<const float> values,
                  Buffer& out);

}  // namespace longhaul::codec
