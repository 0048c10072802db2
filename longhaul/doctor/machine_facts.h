#pragma once
// Facts about this machine, from its kernel.
#include <string>

#include "longhaul/doctor/messages.h"

namespace longhaul::doctor {

// `folder`: where the run will write; it need not exist yet.
MachineFacts local_facts(const std::string& folder);

}  // namespace longhaul::doctor
