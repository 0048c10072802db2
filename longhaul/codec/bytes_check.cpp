#include "longhaul/codec/bytes_check.h"

#include <cmath>

#include <fmt/format.h>

#include "longhaul/core/codec.h"

namespace longhaul::codec {

Status expect_size(std::string_view codec, Range at, std::size_t found, std::size_t expected) {
  if (found == expected) return Ok{};
  return malformed(fmt::format("{}: {} bytes for the {} values from {} on, expected {}", codec,
                               found, at.length, at.offset, expected));
}

Error bad_value(std::string_view codec, std::uint64_t index, std::string_view what) {
  return malformed(fmt::format("{}: value {} of the vector {}", codec, index, what));
}

Status expect_finite(std::string_view codec, Range at, std::span<const float> values) {
  if (all_finite(values)) return Ok{};
  std::size_t i = 0;
  while (std::isfinite(values[i])) ++i;
  return bad_value(codec, at.offset + i, "is not finite");
}

}  // namespace longhaul::codec
