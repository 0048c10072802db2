#pragma once
// The runs of a report by combination: those whose jobs differ in the seed alone belong together.
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "longhaul/report/seed_ranges.h"

namespace longhaul::report {

// A number of the run's summary; nullopt while it is under way, or where it has none.
std::optional<double> figure(const nlohmann::ordered_json& run, const char* key);
// Whether its times are of sockets.
bool is_real(const nlohmann::ordered_json& run);
// Its score is the summary's, of the final model; without one, the newest on the way.
Outcome outcome_of(const nlohmann::ordered_json& run);

struct SeedGroup : Standing {
  std::vector<const nlohmann::ordered_json*> runs = {};  // one at least
  std::string label = {};                                // "fedavg" of "fedavg/seed-7" and others
  bool real = false;
  bool several() const { return runs.size() > 1; }
};

// Runs as RunReader::data() has them; they outlive the groups. The best first by is_ahead();
// simulated ones before those over sockets, for their times say nothing of
// each other. Without settings, or with a seed that its group has already, a run is a group by
// itself.
std::vector<SeedGroup> seed_groups(const std::vector<nlohmann::ordered_json>& runs);

// How each stands to the first, by seed_ranges.h; all of one clock.
std::vector<Difference> group_differences(const std::vector<SeedGroup>& groups);

}  // namespace longhaul::report
