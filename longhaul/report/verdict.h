#pragma once
// Runs compared in one or two sentences, for the top of the page.
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "longhaul/report/seed_ranges.h"

namespace longhaul::report {

// Runs are as RunReader::data() has them.

// The best combination first, as seed_groups() orders them, with the runs of its seeds side by
// side; adds its number to each of them, "group".
void sort_runs(std::vector<nlohmann::ordered_json>&);
// Some of the runs are known to be over sockets, in real time, and others are not.
bool has_both_clocks(const std::vector<nlohmann::ordered_json>& runs);
// Says which combination is first and by how much, or that some tie, or that one seed cannot tell
// (seed_ranges.h). Times of simulated runs are not compared with real ones. The busiest link is
// "busiest" of a run, or where that is not there, "busiest" of its "plan".
std::string verdict_text(const std::vector<nlohmann::ordered_json>& runs);

// "97 % in 32.3 s, 75.7 MB": one combination in a few words.
std::string figures_text(const SeedGroup&);

}  // namespace longhaul::report
