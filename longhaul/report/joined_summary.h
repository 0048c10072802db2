#pragma once
// The summaries of a run's sites as one, of a run that `longhaul site` wrote (docs/run-folder.md):
// as `longhaul launch` has it, as far as a report shows it.
#include <vector>

#include <nlohmann/json.hpp>

namespace longhaul::report {

// By rank. Null: one has not ended.
nlohmann::json joined_summary(const std::vector<nlohmann::json>& summaries);

}  // namespace longhaul::report
