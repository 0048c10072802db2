#pragma once
// What this machine says of itself, asked of its kernel.
#include <string>

#include "longhaul/doctor/messages.h"

namespace longhaul::doctor {

// `folder`: where the run will write; it need not be there yet.
MachineFacts local_facts(const std::string& folder);

}  // namespace longhaul::doctor
