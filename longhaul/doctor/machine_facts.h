#pragma once
// Facts about this machine, from its kernel.
#include <string>

#include "longhaul/doctor/messages.h"
#include "longhaul/net/tcp.h"

namespace longhaul::doctor {

// `folder`: where the run will write; it need not exist yet. `own`: the address that others know;
// `listens`: where this site does.
MachineFacts local_facts(const std::string& folder, const net::Address& own,
                         const net::Address& listens);

}  // namespace longhaul::doctor
