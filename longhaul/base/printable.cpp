#include "longhaul/base/printable.h"

#include <cstdint>

#include <fmt/format.h>

namespace longhaul {

std::string printable(std::string_view text) {
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
