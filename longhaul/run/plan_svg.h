#pragma once
// A plan as a picture: sites on a circle, an arrow for each ordered pair that carries something.
// Its width goes by the bytes; label and colour say how much of the way's capacity is used
// (SitePlan::Pair). SVG 1.1 without scripts, fonts of its own or anything outside the file; the
// same plan gives the same text.
#include <string>
#include <string_view>

#include "longhaul/run/plan.h"

namespace longhaul::run {

// Of more only the most used are drawn, and the picture says so.
inline constexpr std::size_t kMaxArrows = 300;

std::string plan_svg(const SitePlan&);

// Text as it may stand in an element or attribute: escaped, and control characters as blanks.
std::string xml_text(std::string_view);

}  // namespace longhaul::run
