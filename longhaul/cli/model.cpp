#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/cli/ask_options.h"
#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/focus/api.h"

namespace longhaul::cli {
namespace {

struct ModelArgs : JobOptions {
  std::string file, token;
  AskOptions at;
  focus::GivenModel model;
  double ms = 0;
  bool json = false;
};

Result<int> give_model(ModelArgs& args) {
  LH_LET(job, args.load_index());
  if (!args.at.address.empty() && args.token.empty())
    return invalid("--address: expected --token beside it, api.token of that site");
  const auto bytes = run::read_file(args.file);
  if (!bytes) return invalid("--file: " + bytes.error().what);
  if (bytes->size() > focus::GivenModel::kMostFile)
    return invalid(fmt::format("--file: {}: {} bytes, expected {} at most", args.file,
                               bytes->size(), focus::GivenModel::kMostFile));
  args.model.file.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  args.model.seconds = args.ms / 1000;
  const double patience_s = 2 * job.focus->answer_timeout_s + 10;
  return ask_sites(args.at, args.job, job, args.json,
                   [&](const AskedSite& site, const OnLine& on_line) -> Status {
                     LH_LET(token, run::read_token(args.token.empty() ? run::token_file(site.folder)
                                                                      : args.token));
                     return run::give_site(site.address, token, args.model, patience_s, on_line);
                   });
}

}  // namespace

void add_model(CLI::App& app, int& code) {
  auto args = std::make_shared<ModelArgs>();
  CLI::App* sub =
      app.add_subcommand("model", "sends another cheap model to the sites of longhaul serve");
  args->add_job_to(*sub, kIndexJob, /*with_wan=*/false);
  option(*sub, "--file", args->file,
         "the model: TorchScript, or for stream = \"tracks\" a text, noise = N", "FILE")
      ->required();
  option(*sub, "--classes", args->model.classes,
         "numbers of its classes in the order of its scores, with commas; others count as "
         "OTHER (default: all)",
         "LIST")
      ->delimiter(',');
  option(*sub, "--K", args->model.K, "new [focus] K (default: unchanged)", "N",
         CLI::Range(1, 1000));
  option(*sub, "--T", args->model.T,
         "new [focus] T (default: unchanged; if the job has none, each site chooses on its next "
         "objects, and takes the model if it is best)",
         "X", CLI::Range(0.0, 1e12));
  option(*sub, "--ms", args->ms, "ms per object, for stream = \"tracks\" and for the choice", "X",
         CLI::Range(0.0, 1e6));
  add_ask_options(*sub, args->at);
  option(*sub, "--token", args->token,
         "file with the site's token (default: api.token in its folder)", "FILE");
  sub->add_flag("--json", args->json, "prints each answer as a line of JSON");
  sub->footer(
      "Example:\n  longhaul model images.toml --file runs/specialised/model.pt --classes 3,7,1\n"
      "A site that is lost requests the model when it returns.\n"
      "Exit codes: 0 every site has it, 2 bad job, usage or model, 3 a site is missing or none\n"
      "answers, 4 internal error, 130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(give_model(*args)); });
}

}  // namespace longhaul::cli
