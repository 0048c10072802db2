#pragma once
// Output that several subcommands share.
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/run/summary.h"

namespace longhaul::cli {

// Prints the error on standard error; returns its exit code.
int print_error(const Error&);
// The exit code of a command; prints its Error.
inline int code_of(const Result<int>& done) { return done ? *done : print_error(done.error()); }

// Columns of text under a head, the first to the left, the others to the right.
std::string text_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows);

// As JSON; bytes that are no UTF-8, as a folder's name may have, are replaced. `indent` -1: one
// line.
std::string json_text(const nlohmann::ordered_json&, int indent = 2);

// Prints the result of a run; `time` names the kind of time_s, "virtual time". A failure goes to
// standard error.
void print_run(const run::Summary&, const std::string& folder, std::string_view time);

// One line on paced steps; "" without [net] pace.
std::string pace_text(const run::Summary&);
// What became of the samples, in one line.
// "1 run", "3 runs".
std::string count_text(std::size_t count, std::string_view noun);
// Warnings and the failure of a run, to standard error.
void print_trouble(const run::Summary&);
// "accuracy 97.20 %, loss 0.0913"; "not scored" without a loss.
std::string evaluation_text(const std::optional<double>& accuracy,
                            const std::optional<double>& loss);
// A line a site, where sites have test samples of their own.
std::string site_scores_text(const run::Summary&);
std::string samples_text(const SampleCounts&);
// Waiting times and staleness; "" if nothing was recorded.
std::string statistics_text(const run::RunStatistics&, std::uint64_t workers);
// The counts of the emulated WAN's router, in one line.
std::string lab_text(const run::LabFigures&);

bool is_interrupted(const run::Summary&);
// After a signal to stop, on standard error. `nodes`: the folders in which the nodes of one run
// have their checkpoints; empty: of several runs.
void print_resume_hint(const std::vector<std::string>& nodes = {});

std::string version_text();

}  // namespace longhaul::cli
