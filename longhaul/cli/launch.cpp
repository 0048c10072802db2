#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/live_page.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/cli/security_options.h"
#include "longhaul/run/launch.h"

namespace longhaul::cli {
namespace {

int launch(const RunOptions& options, bool lab, bool insecure) {
  warn_if_insecure(insecure);
  auto job = options.load();
  if (!job) return print_error(job.error());
  const std::string folder = options.out.empty() ? "runs/" + job->job.name : options.out;
  std::error_code code;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) return print_error(unavailable("/proc/self/exe: " + code.message()));
  run::LaunchOptions with{.program = program.string(),
                          .arguments = options.job_arguments(),
                          .folder = folder,
                          .existing = options.one(folder).existing};
  if (!options.record.empty()) with.arguments.push_back("--record=" + options.record);
  with.lab = lab;
  with.insecure = insecure;
  if (options.quiet) with.arguments.push_back("--quiet");
  // With --json standard output is for the result alone.
  with.line = [json = options.json, quiet = options.quiet](const std::string& name, bool is_error,
                                                           std::string_view line) {
    if (quiet && !is_error) return;
    std::FILE* const to = is_error || json ? stderr : stdout;
    fmt::print(to, "{}: {}\n", name, line);
    std::fflush(to);
  };
  const auto page = view_if_asked(folder, options.view, options.quiet);
  if (!page) return print_error(page.error());
  auto launched = run::launch(*job, with);
  if (!launched) return print_error(launched.error());
  const run::Summary& summary = launched->summary;
  if (options.json)
    fmt::print("{}\n", to_json(summary).dump(2));
  else
    print_run(summary, folder, "real time");
  if (is_interrupted(summary)) print_resume_hint();
  return launched->exit_code;
}

}  // namespace

void add_launch(CLI::App& app, int& code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* sub =
      app.add_subcommand("launch", "trains with one process a node on this machine, over sockets");
  options->add_to(*sub, "runs/NAME", "continues an interrupted run", false);
  options->add_record_to(*sub);
  options->add_view_to(*sub);
  add_wan_option(*sub, options->wan);
  auto lab = std::make_shared<bool>(false);
  sub->add_flag("--lab", *lab,
                "each site in a network of its own, with the job's [wan] between them in real time "
                "(docs/lab.md; as root)");
  auto insecure = std::make_shared<bool>(false);
  add_insecure_option(*sub, *insecure);
  sub->footer(
      "Examples:\n  longhaul launch examples/mnist-4-sites.toml --set sync.kind=bsp\n"
      "  longhaul launch examples/bsp.toml --lab\n"
      "  longhaul launch examples/mnist-4-sites.toml --lab --wan gaia-11\n"
      "Exit codes: 0 done, 1 stopped before its goal, 2 bad job or usage, 3 a node or the network\n"
      "failed, 4 internal error, 130 Ctrl-C");
  sub->callback([options, lab, insecure, &code] { code = launch(*options, *lab, *insecure); });
}

}  // namespace longhaul::cli
