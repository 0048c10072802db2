#include "longhaul/base/xml_text.h"

#include <cstdint>

namespace longhaul {

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&apos;";
    else
      escaped += std::uint8_t(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return escaped;
}

}  // namespace longhaul
