#pragma once
// Structs with fields() as one line of text: "verdict{round=3 reason=1}". For traces and messages
// to people; never read back.
#include <string>
#include <type_traits>

#include "longhaul/base/fields.h"

namespace longhaul {

template <class T>
std::string print(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(+static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(+value);
  } else if constexpr (std::is_convertible_v<T, std::string>) {
    return "'" + std::string(value) + "'";
  } else if constexpr (Fielded<T>) {
    std::string text = "{";
    T::fields(value, [&](const Field& field, const auto& member) {
      if (text.size() > 1) text += ' ';
      text += std::string(field.name) + "=" + print(member);
    });
    return text + "}";
  } else {  // a list
    constexpr std::size_t kShown = 8;
    std::string text = "[";
    for (std::size_t i = 0; i < value.size() && i < kShown; ++i)
      text += (i > 0 ? " " : "") + print(value[i]);
    if (value.size() > kShown) text += " ... of " + std::to_string(value.size());
    return text + "]";
  }
}

}  // namespace longhaul
