#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/live_page.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/report_runs.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/interrupt.h"

namespace longhaul::cli {
namespace {

Result<int> view(const std::string& folder, std::uint16_t port) {
  LH_LET(found, run_folders({folder}));
  if (found.size() > 1)
    return invalid(fmt::format("{}: holds {} runs; name one of them, or longhaul report for all",
                               folder, found.size()));
  const RunFolder& run = found.front();
  LivePage page(run.folder, /*with_plan=*/true, run.nodes);
  LH_LET(bound, page.start(port));
  fmt::print("http://127.0.0.1:{}/ shows {} until Ctrl-C\n", bound, run.folder);
  std::fflush(stdout);
  const run::InterruptGuard guard;
  while (!run::interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return kDone;
}

}  // namespace

void add_view(CLI::App& app, int& code) {
  struct ViewArgs {
    std::string folder;
    std::uint16_t port = 0;
  };
  auto args = std::make_shared<ViewArgs>();
  CLI::App* sub = app.add_subcommand("view", "shows a run in the browser, also while it runs");
  sub->add_option("RUN", args->folder, "folder of the run")->required();
  option(*sub, "--port", args->port, "port of 127.0.0.1 (default: a free one, which it prints)",
         "PORT");
  sub->footer(
      "Example:\n  longhaul view runs/mnist-4-sites --port 8080\n"
      "Exit codes: 0 Ctrl-C, 2 bad run, port or usage");
  sub->callback([args, &code] { code = code_of(view(args->folder, args->port)); });
}

}  // namespace longhaul::cli
