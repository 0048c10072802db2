#pragma once
// What every decoder of this folder says of bytes that are not its own.
#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "longhaul/base/result.h"
#include "longhaul/core/codec.h"
#include "longhaul/core/types.h"

namespace longhaul::codec {

// Bytes of another length than the stretch `at` needs: malformed, naming both lengths.
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

// bad_value of the first number of the stretch that is not finite.
inline Status expect_finite(std::string_view codec, Range at, std::span<const float> values) {
  if (all_finite(values)) return Ok{};
  std::size_t i = 0;
  while (std::isfinite(values[i])) ++i;
  return bad_value(codec, at.offset + i, "is not finite");
}

}  // namespace longhaul::codec
