#pragma once
// What every decoder of this folder says of bytes that are not its own.
#include <span>
#include <string_view>

#include "longhaul/base/result.h"
#include "longhaul/core/types.h"

namespace longhaul::codec {

// Bytes of another length than the stretch `at` needs: malformed, naming both lengths.
Status expect_size(std::string_view codec, Range at, std::size_t found, std::size_t expected);
// "fp16: value 7 of the vector is not finite": no encoder writes such a value.
Error bad_value(std::string_view codec, std::uint64_t index, std::string_view what);
// bad_value of the first number of the stretch that is not finite.
Status expect_finite(std::string_view codec, Range at, std::span<const float> values);

}  // namespace longhaul::codec
