#pragma once
// Runs beside each other as one picture for a slide or a page: the score over time, and over the
// bytes between sites. SVG 1.1 without scripts, fonts of its own or anything outside the file; the
// same data give the same text.
#include <string>

#include <nlohmann/json.hpp>

#include "longhaul/base/result.h"

namespace longhaul::report {

// Of page_data(): its runs, in its order and with the colours of the page, which the seeds of one
// combination share. Error: no model of any run has been scored, so that there is nothing to draw.
Result<std::string> picture_svg(const nlohmann::ordered_json& data);

}  // namespace longhaul::report
