#pragma once
// The outer optimisers by name: what is done with the agreed mean update before it is applied.
#include <span>

#include "longhaul/core/registry.h"

namespace longhaul::outer {

std::span<const OuterEntry> registry();

// The outer optimiser that [outer] kind names ("none" if it names none), with its settings.
Result<const OuterEntry*> entry_of(const Settings&);

}  // namespace longhaul::outer
