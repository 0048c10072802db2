#pragma once
// How decoders read bytes, and what they say of bytes that are not their own.
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"
#include "longhaul/core/codec.h"
#include "longhaul/core/types.h"

namespace longhaul::codec {

// A reader that takes numbers and bytes from the front of received bytes.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::span<const std::byte> rest() const { return rest_; }
  // The next `count` bytes; nothing if there are fewer.
  std::optional<std::span<const std::byte>> take(std::size_t count) {
    if (count > rest_.size()) return std::nullopt;
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  template <class T>
  std::optional<T> number() {
    const auto bytes = take(sizeof(T));
    if (!bytes) return std::nullopt;
    T value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> rest_;
};

void put(Buffer& out, auto value) {
  const std::size_t size = out.size();
  out.resize(size + sizeof value);
  std::memcpy(&out[size], &value, sizeof value);
}

// Returns Malformed, with both lengths, unless the bytes have the length that range `at` needs.
inline Status expect_size(std::string_view codec, Range at, std::size_t found,
                          std::size_t expected) {
  if (found == expected) return Ok{};
  return malformed(fmt::format("{}: {} bytes for the {} values from {} on, expected {}", codec,
                               found, at.length, at.offset, expected));
}

// "fp16: value 7 of the vector is not finite": no encoder writes such a value.
inline Error bad_value(std::string_view codec, std::uint64_t index, std::string_view what) {
  return malformed(fmt::format("{}: value {} of the vector {}", codec, index, what));
}

// Returns bad_value for the first number of the range that is not finite.
inline Status expect_finite(std::string_view codec, Range at, std::span<const float> values) {
  if (all_finite(values)) return Ok{};
  std::size_t i = 0;
  while (std::isfinite(values[i])) ++i;
  return bad_value(codec, at.offset + i, "is not finite");
}

}  // namespace longhaul::codec
