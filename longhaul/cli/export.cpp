#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/experiment.h"

namespace longhaul::cli {

void add_export(CLI::App& app, int& code) {
  struct Args {
    std::string checkpoint, out;
  };
  auto args = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("export", "writes the model in a checkpoint as TorchScript");
  sub->add_option("CHECKPOINT", args->checkpoint,
                  "RUN/checkpoints/N.checkpoint, or RUN for its newest")
      ->required();
  option(*sub, "--out", args->out, "the file (default: exported.pt in the run's folder)", "FILE");
  sub->footer(
      "Examples:\n  longhaul export runs/bsp\n"
      "  longhaul export runs/bsp/checkpoints/000000000050.checkpoint --out round-50.pt\n"
      "Over sockets each node has its own checkpoints: longhaul export RUN/SITE.\n"
      "Exit codes: 0 done, 2 bad checkpoint or usage");
  sub->callback([args, &code] {
    auto written = run::export_checkpoint(args->checkpoint, args->out);
    if (!written) return void(code = print_error(written.error()));
    fmt::print("{}: {} values of round or checkpoint {}\n", written->path, written->values,
               written->round);
    code = kDone;
  });
}

}  // namespace longhaul::cli
