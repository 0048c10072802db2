#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace longhaul {

// What is not printable ASCII becomes '?': for what a peer wrote.
inline std::string ascii(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

// `text` for a terminal or a log: control characters, with which a name in a file could command a
// terminal, as "\\x1b"; line breaks and tabs stay.
inline std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const bool is_control = std::uint8_t(c) < 0x20 || c == 0x7f;
    if (is_control && c != '\n' && c != '\t')
      shown += fmt::format("\\x{:02x}", std::uint8_t(c));
    else
      shown += c;
  }
  return shown;
}

}  // namespace longhaul
