#pragma once
#include <string>
#include <string_view>

namespace longhaul {

// `text` for a terminal or a log: control characters, with which a name in a file could command a
// terminal, as "\\x1b"; line breaks and tabs stay.
std::string printable(std::string_view text);

}  // namespace longhaul
