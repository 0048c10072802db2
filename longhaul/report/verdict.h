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
// Of sorted runs; times of simulated runs are not compared with real ones. "plan" of a run, if it
// is there, names the busiest link.
std::string verdict_text(const std::vector<nlohmann::ordered_json>& runs);

}  // namespace longhaul::report
