#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/run/experiment.h"

namespace longhaul::cli {
namespace {

int evaluate(const std::string& folder, bool json) {
  auto score = run::evaluate(folder);
  if (!score) return print_error(score.error());
  if (json) {
    const nlohmann::ordered_json object = {{"run", folder},
                                           {"accuracy", score->accuracy},
                                           {"loss", score->loss},
                                           {"samples", score->samples},
                                           {"params_hash", score->params_hash}};
    fmt::print("{}\n", object.dump(2));
  } else {
    fmt::print("{}: accuracy {:.2f} %, loss {:.4f} on {} samples\n", folder, 100 * score->accuracy,
               score->loss, score->samples);
  }
  return kDone;
}

}  // namespace

void add_evaluate(CLI::App& app, int& code) {
  struct Args {
    std::string folder;
    bool json = false;
  };
  auto args = std::make_shared<Args>();
  CLI::App* sub = app.add_subcommand("evaluate", "scores a run's model on its test set");
  sub->add_option("RUN", args->folder, "folder of a run")->required();
  sub->add_flag("--json", args->json, "prints one JSON object");
  sub->footer("Example:\n  longhaul evaluate runs/mnist-4-sites");
  sub->callback([args, &code] { code = evaluate(args->folder, args->json); });
}

}  // namespace longhaul::cli
