#pragma once
#include <span>

#include "longhaul/core/registry.h"

namespace longhaul::sync {

// All values of [sync] kind. Adding a strategy is one line in registry.cpp, and its include.
std::span<const SyncEntry> registry();

}  // namespace longhaul::sync
