#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/experiment.h"
#include "longhaul/run/job/json.h"

namespace longhaul::cli {
namespace {

Result<int> evaluate(const std::string& folder, bool json) {
  LH_LET(score, run::evaluate(folder));
  if (json) {
    nlohmann::ordered_json object = {{"run", folder}};
    object.update(run::json_of(score));
    fmt::print("{}\n", object.dump(2));
  } else {
    fmt::print("{}: {} on {} samples\n", folder, evaluation_text(score.accuracy, score.loss),
               score.samples);
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
  add_json_option(*sub, args->json);
  sub->footer(
      "Example:\n  longhaul evaluate runs/mnist-4-sites\n"
      "Exit codes: 0 done, 2 bad run or usage");
  sub->callback([args, &code] { code = code_of(evaluate(args->folder, args->json)); });
}

}  // namespace longhaul::cli
