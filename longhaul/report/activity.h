#pragma once
// The activity of a run over sockets, where each node writes its own activity.json
// (run/node_activity.h): put together as one of a simulated run (docs/report.md).
#include <vector>

#include <nlohmann/json.hpp>

namespace longhaul::report {

// Sites by name; times in the widest bins of all. Files that do not fit, as of another release or
// damaged, are passed over. Null: none is left.
nlohmann::json joined_activity(const std::vector<nlohmann::json>& files);

}  // namespace longhaul::report
