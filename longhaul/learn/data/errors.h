#pragma once
// invalid(), malformed() and unavailable() of base/result.h with a format: invalid("{} sites", n).
#include <utility>

#include <fmt/format.h>

#include "longhaul/base/result.h"

namespace longhaul::learn {

using longhaul::invalid;
using longhaul::malformed;
using longhaul::unavailable;

template <class First, class... More>
Error invalid(fmt::format_string<First, More...> text, First&& first, More&&... more) {
  return invalid(fmt::format(text, std::forward<First>(first), std::forward<More>(more)...));
}
template <class First, class... More>
Error malformed(fmt::format_string<First, More...> text, First&& first, More&&... more) {
  return malformed(fmt::format(text, std::forward<First>(first), std::forward<More>(more)...));
}
template <class First, class... More>
Error unavailable(fmt::format_string<First, More...> text, First&& first, More&&... more) {
  return unavailable(fmt::format(text, std::forward<First>(first), std::forward<More>(more)...));
}

}  // namespace longhaul::learn
