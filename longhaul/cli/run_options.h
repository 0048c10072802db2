#pragma once
// Options that several commands share.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/run/experiment.h"
#include "longhaul/run/sockets.h"

namespace longhaul::cli {

// Adds an option with a value of the named type.
template <class Value>
CLI::Option* option(CLI::App& app, const char* name, Value& value, const std::string& what,
                    const char* type) {
  return app.add_option(name, value, what)->type_name(type);
}
template <class Value>
CLI::Option* option(CLI::App& app, const char* name, Value& value, const std::string& what,
                    const char* type, const CLI::Validator& check) {
  return option(app, name, value, what, type)->check(check);
}

inline void add_json_option(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "prints the result as one JSON object and nothing else");
}

inline constexpr const char* kIndexJob = "job file (TOML) with [focus]; see docs/focus.md";

// The job that a command reads: JOB, --set and --wan.
struct JobOptions {
  std::string job, wan;
  std::vector<std::string> sets;

  void add_job_to(CLI::App& app, const char* what = "job file (TOML); see docs/job-file.md",
                  bool with_wan = true) {
    app.add_option("JOB", job, what)->required();
    add_overrides_to(app, with_wan);
  }
  void add_overrides_to(CLI::App& app, bool with_wan = true) {
    option(app, "--set", sets,
           "overrides a key of the job file, as in --set sync.steps=50; can be repeated",
           "TABLE.KEY=VALUE")
        ->allow_extra_args(false);
    if (!with_wan) return;
    option(app, "--wan", wan,
           "replaces the job's network: a name from longhaul list, or a file of doctor --write-wan",
           "PRESET|FILE.toml");
  }

  // Returns the arguments with which another process reads the same job.
  std::vector<std::string> job_arguments() const {
    std::vector<std::string> arguments = {job};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    if (!wan.empty()) arguments.insert(arguments.end(), {"--wan", wan});
    return arguments;
  }

  // `more`: settings after those of --set.
  Result<run::Job> load(const std::vector<std::string>& more = {}) const {
    run::Overrides all = overrides();
    all.sets.insert(all.sets.end(), more.begin(), more.end());
    return run::load_job(job, all);
  }
  run::Overrides overrides() const {
    return {.sets = sets, .wan = wan, .own = embedding().own_jobs};
  }

  // Returns an Error with `remedy` if the job has no [focus].
  Result<run::Job> load_index(const char* remedy = "nothing is indexed") const {
    auto read = load();
    if (read && !read->focus) return invalid(job + ": has no [focus]: " + remedy);
    return read;
  }
};

// The options of simulate, compare, launch and site.
struct RunOptions : JobOptions {
  std::string out;
  std::string record;             // "", "hashes" or "full"
  std::optional<double> until_s;  // --until of simulate
  unsigned threads = 0;
  int view = -1;  // the port of --view; -1: none
  bool quiet = false, force = false, resume = false, json = false;
  bool require_target = false;

  // `out_default`: the folder without --out; `resume_doc`: the effect of --resume; `with_threads`:
  // adds --threads.
  void add_to(CLI::App& app, const std::string& out_default, const std::string& resume_doc,
              bool with_threads = true) {
    add_job_to(app);
    option(app, "--out", out, "folder of the run (default: " + out_default + ")", "DIR");
    if (with_threads)
      option(app, "--threads", threads,
             "threads that compute gradients; the result does not depend on it (default: all "
             "cores)",
             "N", CLI::Range(1u, 1024u));
    CLI::Option* again = app.add_flag("--force", force, "overwrites the folder of an earlier run");
    app.add_flag("--resume", resume, resume_doc)->excludes(again);
    app.add_flag("--require-target", require_target, "exit code 1 if the run misses its target");
    app.add_flag_callback(
        "--tensorboard", [this] { sets.emplace_back("report.tensorboard=true"); },
        "also writes the figures for TensorBoard, to tensorboard/ in the run's folder");
    app.add_flag("--quiet", quiet, "no progress");
    add_json_option(app, json);
  }

  CLI::Option* add_record_to(CLI::App& app) {
    CLI::Option* option = app.add_flag(
        "--record{hashes}", record,
        "records every node for longhaul replay; --record=full: with the learners' results");
    return option->check(CLI::IsMember({"hashes", "full"}));
  }

  void add_view_to(CLI::App& app) {
    option(app, "--view", view,
           "serves a page that shows the run, at this port of 127.0.0.1; 0: any free port", "PORT",
           CLI::Range(0, 65535));
  }

  // Returns --out, or runs/NAME. Absolute for loops of the embedding program: they may change the
  // working folder.
  std::string run_folder(const std::string& name) const {
    const std::string folder = out.empty() ? "runs/" + name : out;
    return embedding().learners ? std::filesystem::absolute(folder).string() : folder;
  }

  // Returns options for a command with one run; one_of_several() for one of several runs, which
  // with --resume may be finished, interrupted or not started.
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
            .learners = embedding().learners,
            .record = mode};
  }

  run::SimulateOptions one_of_several(std::string folder) const {
    run::SimulateOptions options = one(std::move(folder));
    if (resume) options.existing = run::ExistingFolder::resume_or_begin;
    return options;
  }
};

// Adds --insecure, for commands that open connections.
inline void add_insecure_option(CLI::App& app, bool& insecure) {
  app.add_flag(
      "--insecure", insecure,
      "without TLS: any host that reaches the ports can read and change the model, and take part");
}

inline void add_security_options(CLI::App& app, run::Security& security) {
  CLI::Option* keys =
      option(app, "--keys", security.keys,
             "folder with ca.crt and this site's SITE.pem (longhaul keys; default: [net] "
             "keys)",
             "DIR");
  add_insecure_option(app, security.insecure);
  app.get_option("--insecure")->excludes(keys);
}

// Warns on standard error, even with --quiet.
inline void warn_if_insecure(bool insecure) {
  if (insecure)
    fmt::print(stderr,
               "longhaul: WARNING: --insecure: connections are neither encrypted nor "
               "authenticated; any host that reaches the ports can read and change the model\n");
}

}  // namespace longhaul::cli
