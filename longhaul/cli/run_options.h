#pragma once
// The options that simulate, compare, launch and site share.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/run/experiment.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace longhaul::cli {

// --set and --wan, of the commands that read a job.
void add_set_option(CLI::App&, std::vector<std::string>& sets);
void add_wan_option(CLI::App&, std::string& preset);

struct RunOptions {
  std::string job;
  std::vector<std::string> sets;
  std::string wan;
  std::string out;
  std::string record;             // "", "hashes" or "full"
  std::optional<double> until_s;  // --until of simulate
  unsigned threads = 0;
  int view = -1;  // the port of --view; -1: none
  bool quiet = false, force = false, resume = false, json = false;
  bool require_target = false;

  // `out_default`: the folder without --out; `resume_doc`: what --resume does; `threads`: whether
  // there is that option.
  void add_to(CLI::App&, const std::string& out_default, const std::string& resume_doc,
              bool with_threads = true);
  CLI::Option* add_record_to(CLI::App&);
  void add_view_to(CLI::App&);
  // JOB, --set and --wan, for a process that reads the same job.
  std::vector<std::string> job_arguments() const;
  // Reads the job with --set and --wan applied, and `more` settings after them.
  Result<run::Job> load(const std::vector<std::string>& more = {}) const;
  // For a command that is one run, and for one run of several, which with --resume may be finished,
  // interrupted or not started.
  run::SimulateOptions one(std::string folder) const;
  run::SimulateOptions one_of_several(std::string folder) const;
};

}  // namespace longhaul::cli
