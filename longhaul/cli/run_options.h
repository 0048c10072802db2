#pragma once
// The options that simulate, compare, launch and site share.
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "longhaul/run/experiment.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace longhaul::cli {

// --set and --wan, of the commands that read a job.
inline void add_set_option(CLI::App& app, std::vector<std::string>& sets) {
  app.add_option("--set", sets, "overrides a key of the job file: --set sync.steps=50")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
}

inline void add_wan_option(CLI::App& app, std::string& preset) {
  app.add_option(
         "--wan", preset,
         "in place of the job's network: one of longhaul list, or a file of doctor --write-wan")
      ->type_name("PRESET|FILE.toml");
}

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
  void add_to(CLI::App& app, const std::string& out_default, const std::string& resume_doc,
              bool with_threads = true) {
    app.add_option("JOB", job, "job file (TOML); see docs/job-file.md")->required();
    add_set_option(app, sets);
    app.add_option("--out", out, "folder of the run (default: " + out_default + ")")
        ->type_name("DIR");
    if (with_threads)
      app.add_option("--threads", threads, "threads that take gradients (default: all cores)")
          ->check(CLI::Range(1u, 1024u))
          ->type_name("N");
    CLI::Option* again = app.add_flag("--force", force, "overwrites the folder of an earlier run");
    app.add_flag("--resume", resume, resume_doc)->excludes(again);
    app.add_flag("--require-target", require_target,
                 "exit code 1 if the run ends without having reached its target");
    app.add_flag_callback(
        "--tensorboard", [this] { sets.emplace_back("report.tensorboard=true"); },
        "writes the figures for TensorBoard, too, into the run's folder: tensorboard/");
    app.add_flag("--quiet", quiet, "no progress");
    app.add_flag("--json", json, "prints the result as one JSON object and nothing else");
  }

  CLI::Option* add_record_to(CLI::App& app) {
    CLI::Option* option = app.add_flag(
        "--record{hashes}", record,
        "records every node for longhaul replay; --record=full also what the learners computed");
    return option->check(CLI::IsMember({"hashes", "full"}));
  }

  void add_view_to(CLI::App& app) {
    app.add_option("--view", view, "shows the run in a browser on this port of 127.0.0.1; 0: any")
        ->check(CLI::Range(0, 65535))
        ->type_name("PORT");
  }

  // JOB, --set and --wan, for a process that reads the same job.
  std::vector<std::string> job_arguments() const {
    std::vector<std::string> arguments = {job};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    if (!wan.empty()) arguments.insert(arguments.end(), {"--wan", wan});
    return arguments;
  }

  // Reads the job with --set and --wan applied, and `more` settings after them.
  Result<run::Job> load(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return run::load_job(job, {std::move(all), wan});
  }

  // For a command that is one run, and for one run of several, which with --resume may be finished,
  // interrupted or not started.
  run::SimulateOptions one(std::string folder) const {
    std::optional<record::Mode> mode;
    if (!record.empty()) mode = record == "full" ? record::Mode::full : record::Mode::hashes;
    return {.folder = std::move(folder),
            .existing = force    ? run::ExistingFolder::force
                        : resume ? run::ExistingFolder::resume
                                 : run::ExistingFolder::refuse,
            .threads = threads,
            .progress = run::Progress::detect(quiet),
            .until_s = until_s,
            .record = mode};
  }

  run::SimulateOptions one_of_several(std::string folder) const {
    run::SimulateOptions options = one(std::move(folder));
    if (resume) options.existing = run::ExistingFolder::resume_or_begin;
    return options;
  }
};

}  // namespace longhaul::cli
