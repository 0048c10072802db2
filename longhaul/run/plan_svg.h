#pragma once
// A plan as a picture: sites on a circle, an arrow for each ordered pair that carries something.
// Its width shows the bytes; label and colour show SitePlan::Pair::used. SVG 1.1 without scripts,
// fonts of its own or anything outside the file; the same plan gives the same text.
#include <string>

#include "longhaul/run/plan.h"

namespace longhaul::run {

// Of more pairs only the most used are drawn, with a note.
inline constexpr std::size_t kMaxArrows = 300;

std::string plan_svg(const SitePlan&);

}  // namespace longhaul::run
