#pragma once
// Compact lists of indices: which `count` of `length` elements, ascending. The shortest of three
// forms is written, with one byte before it that names the form:
//
//   bitmap  one bit an element                        ceil(length / 8) bytes
//   gaps    the distance to the index before, less 1, as a varint: 7 bits a byte, lowest first
//                                                     1 byte for each gap up to 127, 2 up to 16383
//   chunks  of 64 elements: how many of them, a byte each; then 6 bits an index
//                                                     ceil(length / 64) + ceil(6 count / 8) bytes
//
// Gaps are shortest for lists of less than about 6 % of the elements, chunks from there to about
// 14 %, bitmaps above. The count is not written: the reader knows it, or reads it next to the list.
#include <cstdint>
#include <span>
#include <vector>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"
#include "longhaul/codec/bytes_check.h"

namespace longhaul::codec {

// Upper limit of lengths. Lists cover ranges of a vector, which are far shorter.
inline constexpr std::uint64_t kMostIndexed = std::uint64_t{1} << 32;

// Returns the maximum bytes of a list of `count` indices; monotone in both arguments.
std::size_t most_index_bytes(std::uint64_t length, std::uint64_t count);
// CHECKs that the indices ascend and are less than `length`.
void write_indices(std::span<const std::uint32_t> ascending, std::uint64_t length, Buffer& out);
// Takes a list from the front. Returns Malformed unless it has `count` ascending indices below
// `length` in the form of write_indices. Allocates no more than `count` indices, and none before
// the bytes are long enough for them.
Result<std::vector<std::uint32_t>> read_indices(Cursor& in, std::uint64_t length,
                                                std::uint64_t count);

}  // namespace longhaul::codec
