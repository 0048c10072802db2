#pragma once
// Runs compared in one or two sentences, for the top of the page.
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace longhaul::report {

// Runs are as RunReader::data() has them.

// The best first: those that reached the target by when, then the others by score; simulated runs
// before those over sockets.
void sort_runs(std::vector<nlohmann::ordered_json>&);
// Some of the runs are known to be over sockets, in real time, and others are not.
bool has_both_clocks(const std::vector<nlohmann::ordered_json>& runs);
// Of sorted runs; times of simulated runs are not compared with real ones. The busiest
// link is "busiest" of a run, or where that is not there, "busiest" of its "plan".
std::string verdict_text(const std::vector<nlohmann::ordered_json>& runs);

// "97 % in 32.3 s, 75.7 MB between sites": one run in a few words.
std::string figures_text(const nlohmann::ordered_json& run);

}  // namespace longhaul::report
