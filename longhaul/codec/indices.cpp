#include "longhaul/codec/indices.h"

#include <algorithm>
#include <array>
#include <bit>

namespace longhaul::codec {
namespace {

enum class Form : std::uint8_t { bitmap = 0, gaps = 1, chunks = 2 };

using Indices = std::span<const std::uint32_t>;

constexpr std::uint64_t kChunk = 64;
constexpr unsigned kIndexBits = 6;

std::uint64_t up(std::uint64_t value, std::uint64_t unit) {
  return value / unit + (value % unit != 0 ? 1 : 0);
}

std::uint64_t varint_bytes(std::uint32_t value) {
  return value == 0 ? 1 : up(std::uint64_t(std::bit_width(value)), 7);
}

std::uint64_t bitmap_bytes(std::uint64_t length) { return up(length, 8); }
std::uint64_t chunks_bytes(std::uint64_t length, std::uint64_t count) {
  return up(length, kChunk) + up(kIndexBits * count, 8);
}
std::uint64_t gaps_bytes(Indices indices) {
  std::uint64_t bytes = 0, next = 0;
  for (const std::uint32_t index : indices) {
    bytes += varint_bytes(std::uint32_t(index - next));
    next = index + std::uint64_t{1};
  }
  return bytes;
}
// The gaps add up to less than `length`, so few of them can be long.
std::uint64_t most_gaps_bytes(std::uint64_t length, std::uint64_t count) {
  std::uint64_t bytes = count;
  for (unsigned bits = 7; bits < 32; bits += 7) bytes += std::min(count, length >> bits);
  return bytes;
}

void write_bitmap(Indices indices, std::uint64_t length, Buffer& out) {
  const std::size_t begin = out.size();
  out.resize(begin + bitmap_bytes(length));
  for (const std::uint32_t index : indices) out[begin + index / 8] |= std::byte(1u << (index % 8));
}

void write_gaps(Indices indices, Buffer& out) {
  std::uint64_t next = 0;
  for (const std::uint32_t index : indices) {
    std::uint32_t gap = std::uint32_t(index - next);
    for (; gap >= 128; gap >>= 7) out.push_back(std::byte((gap & 127u) | 128u));
    out.push_back(std::byte(gap));
    next = index + std::uint64_t{1};
  }
}

void write_chunks(Indices indices, std::uint64_t length, Buffer& out) {
  const std::size_t counts = out.size();
  out.resize(counts + up(length, kChunk));
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const std::uint32_t index : indices) {
    std::byte& count = out[counts + index / kChunk];
    count = std::byte(unsigned(count) + 1);
    bits |= (index % std::uint32_t{kChunk}) << held;
    for (held += kIndexBits; held >= 8; held -= 8, bits >>= 8) out.push_back(std::byte(bits & 255));
  }
  if (held > 0) out.push_back(std::byte(bits));
}

Error bad_list(std::string_view why) { return malformed("list of indices " + std::string(why)); }

Result<std::vector<std::uint32_t>> read_bitmap(Cursor& in, std::uint64_t length,
                                               std::uint64_t count) {
  const auto bytes = in.take(bitmap_bytes(length));
  if (!bytes) return bad_list("that ends early");
  std::uint64_t found = 0;
  for (const std::byte byte : *bytes) found += std::uint64_t(std::popcount(unsigned(byte)));
  if (found != count) return bad_list("of another count");
  std::vector<std::uint32_t> indices;
  indices.reserve(count);
  for (std::size_t at = 0; at < bytes->size(); ++at)
    for (unsigned byte = unsigned((*bytes)[at]); byte != 0; byte &= byte - 1)
      indices.push_back(std::uint32_t(8 * at) + std::uint32_t(std::countr_zero(byte)));
  if (!indices.empty() && indices.back() >= length) return bad_list("beyond the end");
  return indices;
}

// As it was written: the shortest form of a gap, five bytes at most.
std::optional<std::uint32_t> read_varint(Cursor& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    const auto byte = in.number<std::uint8_t>();
    if (!byte || (shift > 0 && *byte == 0)) return std::nullopt;
    value |= std::uint64_t(*byte & 127u) << shift;
    if (*byte < 128) {
      if (value > 0xFFFFFFFFu) return std::nullopt;
      return std::uint32_t(value);
    }
  }
  return std::nullopt;
}

Result<std::vector<std::uint32_t>> read_gaps(Cursor& in, std::uint64_t length,
                                             std::uint64_t count) {
  if (count > in.rest().size()) return bad_list("that ends early");
  std::vector<std::uint32_t> indices(count);
  std::uint64_t next = 0;
  for (std::uint32_t& index : indices) {
    const auto gap = read_varint(in);
    if (!gap) return bad_list("with a gap that is no number");
    if (next + *gap >= length) return bad_list("beyond the end");
    index = std::uint32_t(next + *gap);
    next = index + std::uint64_t{1};
  }
  return indices;
}

Result<std::vector<std::uint32_t>> read_chunks(Cursor& in, std::uint64_t length,
                                               std::uint64_t count) {
  const auto counts = in.take(up(length, kChunk));
  const auto packed = in.take(up(kIndexBits * count, 8));
  if (!counts || !packed) return bad_list("that ends early");
  std::uint64_t all = 0;
  for (const std::byte one : *counts) all += std::uint64_t(one);
  if (all != count) return bad_list("of another count");
  std::vector<std::uint32_t> indices;
  indices.reserve(count);
  std::uint32_t bits = 0;
  unsigned held = 0;
  std::size_t at = 0;
  for (std::size_t chunk = 0; chunk < counts->size(); ++chunk)
    for (unsigned left = unsigned((*counts)[chunk]); left > 0; --left) {
      if (held < kIndexBits) {
        bits |= std::uint32_t((*packed)[at++]) << held;
        held += 8;
      }
      const auto index = std::uint32_t(chunk * kChunk + bits % kChunk);
      bits >>= kIndexBits;
      held -= kIndexBits;
      if (index >= length) return bad_list("beyond the end");
      if (!indices.empty() && index <= indices.back()) return bad_list("that does not ascend");
      indices.push_back(index);
    }
  if (bits != 0) return bad_list("with bits behind its end");
  return indices;
}

}  // namespace

std::size_t most_index_bytes(std::uint64_t length, std::uint64_t count) {
  return 1 + std::min({bitmap_bytes(length), chunks_bytes(length, count),
                       most_gaps_bytes(length, count)});
}

void write_indices(Indices indices, std::uint64_t length, Buffer& out) {
  LH_CHECK(length <= kMostIndexed && (indices.empty() || indices.back() < length));
  for (std::size_t i = 1; i < indices.size(); ++i) LH_CHECK(indices[i - 1] < indices[i]);
  const std::array<std::uint64_t, 3> bytes = {bitmap_bytes(length), gaps_bytes(indices),
                                              chunks_bytes(length, indices.size())};
  const auto form = Form(std::ranges::min_element(bytes) - bytes.begin());
  put(out, form);
  if (form == Form::bitmap)
    write_bitmap(indices, length, out);
  else if (form == Form::gaps)
    write_gaps(indices, out);
  else
    write_chunks(indices, length, out);
}

Result<std::vector<std::uint32_t>> read_indices(Cursor& in, std::uint64_t length,
                                                std::uint64_t count) {
  if (length > kMostIndexed || count > length) return bad_list("of too many");
  const auto form = in.number<std::uint8_t>();
  if (!form) return bad_list("that ends early");
  switch (Form(*form)) {
    case Form::bitmap:
      return read_bitmap(in, length, count);
    case Form::gaps:
      return read_gaps(in, length, count);
    case Form::chunks:
      return read_chunks(in, length, count);
  }
  return bad_list("in no known form");
}

}  // namespace longhaul::codec
