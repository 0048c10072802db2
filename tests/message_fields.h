#pragma once
// Type and bound of a message's field as text.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <type_traits>

#include "longhaul/base/fields.h"

namespace longhaul {

template <class T>
std::string type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return "flag";
  else if constexpr (std::is_enum_v<T>)
    return type_of<std::underlying_type_t<T>>();
  else if constexpr (std::is_floating_point_v<T>)
    return fmt::format("f{}", 8 * sizeof(T));
  else if constexpr (std::is_arithmetic_v<T>)
    return fmt::format("{}{}", std::is_signed_v<T> ? "i" : "u", 8 * sizeof(T));
  else if constexpr (Fielded<T>) {
    std::string text;
    T value{};
    T::fields(value, [&]<class Member>(const Field& f, Member&) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", f.name, type_of<Member>());
    });
    return "(" + text + ")";
  } else {
    return "list of " + type_of<typename T::value_type>();
  }
}

inline std::string bounds(const Field& f) {
  if (!std::isfinite(f.min) && !std::isfinite(f.max)) return "";
  if (!std::isfinite(f.min)) return fmt::format("at most {:g}", f.max);
  return fmt::format("{:g} to {:g}", f.min, f.max);
}

}  // namespace longhaul
