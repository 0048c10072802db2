#pragma once
// A network in words and tables.
#include <string>

#include "longhaul/flow/wan.h"

namespace longhaul::cli {

// The sites' own links, then every pair's rate and one-way delay: as tables where pairs differ and
// a terminal has room for them, else in a line.
std::string wan_text(const flow::Wan&);

}  // namespace longhaul::cli
