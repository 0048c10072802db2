#include <fstream>
#include <iterator>

#include <CLI/CLI.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/core/cheap_models.h"
#include "longhaul/run/model_trial.h"
#include "longhaul/run/torch_library.h"

namespace longhaul::cli {
namespace {

struct TryArgs {
  std::string file;
  std::vector<std::uint32_t> classes;
  learn::DataShape shape;
};

Status try_model(const TryArgs& args) {
  std::ifstream in(args.file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  LH_LET(torch, run::torch_library());
  learn::InferenceParts parts;
  parts.shape = args.shape;
  LH_LET(learner, torch->make_inference(parts));
  auto* models = dynamic_cast<CheapModels*>(learner.get());
  LH_CHECK(models);
  return models->put_cheap(0, args.classes, std::as_bytes(std::span(bytes)));
}

}  // namespace

// Not for people: `longhaul serve` starts it to try the models that a site is given.
void add_try_model(CLI::App& app, int&) {
  auto args = std::make_shared<TryArgs>();
  CLI::App* sub = app.add_subcommand("try-model", "tries a cheap model on two objects")->group("");
  sub->add_option("FILE", args->file, "the model")->required();
  sub->add_option("--sample", args->shape.sample, "sizes of an object")->delimiter(',')->required();
  sub->add_option("--outputs", args->shape.outputs, "classes of the job")->required();
  sub->add_option("--classes", args->classes, "that the model tells apart")->delimiter(',');
  sub->callback([args] { run::run_trial([&] { return try_model(*args); }); });
}

}  // namespace longhaul::cli
