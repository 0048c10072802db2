#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/lab.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {
namespace {

// Holds the network of a job until Ctrl-C.
Result<int> hold_network(const RunOptions& options) {
  LH_LET(job, options.load());
  LH_LET(program, run::own_program());
  run::LabOptions with{.program = program,
                       .arguments = options.job_arguments(),
                       .file = options.out,
                       .line = [](const std::string& name, bool, std::string_view line) {
                         fmt::print(stderr, "{}: {}\n", name, line);
                       }};
  const run::InterruptGuard guard;
  LH_LET(lab, run::Lab::start(job, with));
  std::vector<std::vector<std::string>> rows;
  for (std::uint32_t site = 0; site < job.sites.size(); ++site)
    rows.push_back({job.sites[site].name, run::Lab::address(site),
                    fmt::format("nsenter --net=/proc/{}/fd/{}", getpid(), (*lab).network(site))});
  fmt::print("{}", text_table({"site", "address", "to run a command there"}, rows));
  fmt::print("Ctrl-C ends it\n");
  std::fflush(stdout);
  while (!run::interrupted()) {
    if (!(*lab).runs()) return unavailable((*lab).failure());
    (void)usleep(100'000);
  }
  (void)(*lab).stop();
  return kDone;
}

struct RouterArgs {
  RunOptions common;
  std::vector<int> tuns;
  int stop = -1;
};

Result<int> route(const RouterArgs& args) {
  LH_LET(job, args.common.load());
  const Status status = run::run_router(job, args.tuns, args.stop, args.common.out);
  return status ? kDone : print_error(status.error());
}

}  // namespace

void add_lab(CLI::App& app, int& code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* sub = app.add_subcommand(
      "lab", "keeps the emulated WAN of a job up until Ctrl-C (docs/lab.md; as root)");
  options->add_job_to(*sub);
  option(*sub, "--out", options->out, "file for the router's figures (default: none)", "FILE");
  sub->footer(
      "Example:\n  longhaul lab examples/bsp.toml --set wan.mbps=50\n"
      "Exit codes: 0 Ctrl-C, 2 bad job or usage, 3 the router failed or cannot run here");
  sub->callback([options, &code] { code = code_of(hold_network(*options)); });

  auto args = std::make_shared<RouterArgs>();
  CLI::App* router = app.add_subcommand("lab-router", "what launch --lab starts");
  router->group("");  // not for users: it is told of descriptors that it inherits
  args->common.add_to(*router, "none", "ignored", false);
  args->common.add_record_to(*router);
  router->add_option("--tuns", args->tuns, "descriptors by site")->delimiter(',')->required();
  router->add_option("--stop", args->stop, "readable: the end")->required();
  router->callback([args, &code] { code = code_of(route(*args)); });
}

}  // namespace longhaul::cli
