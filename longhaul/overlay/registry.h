#pragma once
// The overlays by name.
#include <span>

#include "longhaul/core/registry.h"

namespace longhaul::overlay {

std::span<const OverlayEntry> registry();

}  // namespace longhaul::overlay
