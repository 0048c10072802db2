#pragma once
#include <string>
#include <string_view>

namespace longhaul {

// `text` as the content or an attribute of an element of SVG, XML or HTML: characters with a
// meaning there are escaped, control characters become spaces.
std::string xml_text(std::string_view text);

}  // namespace longhaul
