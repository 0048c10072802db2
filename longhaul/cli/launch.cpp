#include <cstdio>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/live_page.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/launch.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {
namespace {

struct LaunchArgs {
  RunOptions common;
  bool lab = false;
  bool insecure = false;
  unsigned max_restarts = 3;
};

// The folders of the nodes that take part.
std::vector<std::string> node_folders(const run::Job& job, const std::string& folder) {
  std::vector<std::string> all;
  for (const Member& member : job.members())
    if (!job.leaves_out(member.site)) all.push_back(run::node_folder(folder, member));
  return all;
}

Result<int> launch(const LaunchArgs& args) {
  warn_if_insecure(args.insecure);
  const RunOptions& options = args.common;
  LH_LET(job, options.load());
  const std::string folder = options.run_folder(job.job.name);
  LH_LET(program, run::own_program());
  run::LaunchOptions with{.program = program,
                          .arguments = options.job_arguments(),
                          .folder = folder,
                          .existing = options.one(folder).existing};
  if (!options.record.empty()) with.arguments.push_back("--record=" + options.record);
  with.lab = args.lab;
  with.insecure = args.insecure;
  with.max_restarts = args.max_restarts;
  if (options.quiet) with.arguments.push_back("--quiet");
  // With --json standard output is for the result alone.
  with.line = [json = options.json, quiet = options.quiet](const std::string& name, bool is_error,
                                                           std::string_view line) {
    if (quiet && !is_error) return;
    std::FILE* const to = is_error || json ? stderr : stdout;
    (void)std::fputs(fmt::format("{}: {}\n", name, line).c_str(), to);  // also into a full disk
    std::fflush(to);
    std::clearerr(to);
  };
  LH_LET(page, view_if_asked(folder, options.view, options.quiet));
  // A page has a thread, which copies of this process lack.
  if (!page) with.run_in_copy = run_words_in_copies();
  LH_LET(launched, run::launch(job, with));
  const run::Summary& summary = launched.summary;
  if (options.json)
    fmt::print("{}", run::summary_text(summary));
  else
    print_run(summary, folder, "real time");
  if (is_interrupted(summary)) print_resume_hint(node_folders(job, folder));
  if (launched.exit_code == kDone) return exit_code(summary, options.require_target);
  return launched.exit_code;
}

}  // namespace

void add_launch(CLI::App& app, int& code) {
  auto args = std::make_shared<LaunchArgs>();
  CLI::App* sub = app.add_subcommand(
      "launch", "trains over sockets, with one process per node on this machine");
  args->common.add_to(*sub, "runs/NAME", "continues an interrupted run", false);
  args->common.add_record_to(*sub);
  args->common.add_view_to(*sub);
  sub->add_flag("--lab", args->lab,
                "a network namespace for each site, with the job's [wan] between them in real time "
                "(docs/lab.md; as root)");
  add_insecure_option(*sub, args->insecure);
  option(*sub, "--max-restarts", args->max_restarts,
         "restarts of a node that dies, after 1, 2, 4 ... s (default: 3)", "N",
         CLI::Range(0u, 1000u));
  sub->footer(
      "Examples:\n  longhaul launch examples/mnist-4-sites.toml --set sync.kind=bsp\n"
      "  longhaul launch examples/bsp.toml --lab\n"
      "  longhaul launch examples/mnist-4-sites.toml --lab --wan gaia-11\n"
      "Exit codes: 0 the run ended as configured, 1 diverged, --require-target and below it, or a\n"
      "node crashed and was not back, 2 bad job or usage, 3 a node or the network failed,\n"
      "4 internal error, 130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(launch(*args)); });
}

}  // namespace longhaul::cli
