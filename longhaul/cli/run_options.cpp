#include "longhaul/cli/run_options.h"

#include <CLI/CLI.hpp>

namespace longhaul::cli {

void RunOptions::add_to(CLI::App& app) {
  app.add_option("JOB", job, "job file (TOML); see docs/job-file.md")->required();
  app.add_option("--set", sets, "overrides a key of the job file: --set sync.steps=50")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--out", out, "folder of the run (default: runs/NAME)")->type_name("DIR");
  app.add_option("--threads", threads, "threads that take gradients (default: all cores)")
      ->check(CLI::Range(1u, 1024u))
      ->type_name("N");
  app.add_flag("--force", force, "overwrites the folder of an earlier run");
  app.add_flag("--quiet", quiet, "no progress");
  app.add_flag("--json", json, "prints the result as one JSON object and nothing else");
}

Result<run::Job> RunOptions::load(const std::vector<std::string>& more) const {
  std::vector<std::string> all = sets;
  all.insert(all.end(), more.begin(), more.end());
  return run::load_job(job, all);
}

run::SimulateOptions RunOptions::simulate(std::string folder) const {
  return {.folder = std::move(folder),
          .existing = force ? run::Existing::force : run::Existing::refuse,
          .threads = threads,
          .progress = run::Progress::detect(quiet)};
}

}  // namespace longhaul::cli
