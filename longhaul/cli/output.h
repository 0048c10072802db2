#pragma once
// What the subcommands print alike.
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/run/summary.h"

namespace longhaul::cli {

// One message on standard error; answers with the exit code that belongs to it.
int print_error(const Error&);

// Columns of text under a head, the first to the left, the others to the right.
std::string text_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows);

// The middle one, or the mean of the two; NaN without values.
double median(std::vector<double> values);

// What a run came to; `time`: the kind of its time_s, "virtual time". Its failure goes to standard
// error.
void print_run(const run::Summary&, const std::string& folder, std::string_view time);

// One line on steps that were to take as long as in the simulator; "" if they were not.
std::string pace_text(const run::Summary&);
// What its workers waited for, and how stale updates were; "" if nothing says so.
std::string statistics_text(const run::RunStatistics&);
// What the router of an emulated WAN says of itself, in a line.
std::string lab_text(const run::LabFigures&);

bool is_interrupted(const run::Summary&);
// After Ctrl-C, on standard error.
void print_resume_hint();

std::string version_text();

}  // namespace longhaul::cli
