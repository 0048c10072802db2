#pragma once
// A comparison of runs as one picture for a slide or a page: the score over time, and over the
// bytes between sites. SVG 1.1 without scripts, fonts of its own or anything outside the file.
// Equal data give equal text.
#include <string>

#include <nlohmann/json.hpp>

#include "longhaul/base/result.h"

namespace longhaul::report {

// Returns the picture of the runs of page_data(), in its order and with the colours of the page,
// which the seeds of one combination share. Returns an Error if no model was scored: there is
// nothing to draw.
Result<std::string> picture_svg(const nlohmann::ordered_json& data);

}  // namespace longhaul::report
