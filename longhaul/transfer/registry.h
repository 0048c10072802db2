#pragma once
// The transfers by name.
#include <span>

#include "longhaul/core/registry.h"

namespace longhaul::transfer {

std::span<const TransferEntry> registry();

}  // namespace longhaul::transfer
