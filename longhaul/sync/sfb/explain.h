#pragma once
// What `longhaul explain JOB` prints of sfb.
#include "longhaul/core/explanation.h"
#include "longhaul/sync/sfb/config.h"
#include "longhaul/sync/sfb/parts.h"
#include "longhaul/sync/sfb/spread.h"

namespace longhaul::sync::sfb {

// The rule of each fully connected layer, and the bytes that it saves.
Explanation explain_layers(const Config&, const Parts&, const Layout&, std::uint32_t batch,
                           std::uint32_t workers, Spread);

}  // namespace longhaul::sync::sfb
