#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "longhaul/cli/ask_options.h"
#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/focus/api.h"
#include "longhaul/run/focus/api_token.h"

namespace longhaul::cli {
namespace {

struct ModelArgs {
  std::string job, file, token;
  AskOptions at;
  std::vector<std::string> sets;
  focus::GivenModel model;
  double ms = 0;
  bool json = false;
};

int give_model(ModelArgs& args) {
  const auto job = run::load_job(args.job, {args.sets, ""});
  if (!job) return print_error(job.error());
  if (!job->focus) return print_error(invalid(args.job + ": has no [focus]: nothing is indexed"));
  if (!args.at.address.empty() && args.token.empty())
    return print_error(invalid("--address: expected --token beside it, api.token of that site"));
  const auto bytes = run::read_file(args.file);
  if (!bytes) return print_error(invalid("--file: " + bytes.error().what));
  if (bytes->size() > focus::GivenModel::kMostFile)
    return print_error(invalid(fmt::format("--file: {}: {} bytes, expected {} at most", args.file,
                                           bytes->size(), focus::GivenModel::kMostFile)));
  args.model.file.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  args.model.seconds = args.ms / 1000;
  const double patience_s = 2 * job->focus->answer_timeout_s + 10;
  return ask_sites(args.at, args.job, *job, args.json,
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
      app.add_subcommand("model", "gives the sites of longhaul serve another cheap model");
  sub->add_option("JOB", args->job, "job file (TOML) with [focus]; see docs/focus.md")->required();
  sub->add_option("--file", args->file,
                  "the model: TorchScript; for stream = \"tracks\" a text, noise = N")
      ->required()
      ->type_name("FILE");
  sub->add_option("--classes", args->model.classes,
                  "numbers of the classes that it tells apart, with commas, in the order of its "
                  "scores; the rest is OTHER (default: all)")
      ->delimiter(',')
      ->type_name("LIST");
  sub->add_option("--K", args->model.K, "as [focus] K, from then on (default: as before)")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  sub->add_option(
         "--T", args->model.T,
         "as [focus] T, from then on (default: as before; where the job leaves it out each "
         "site chooses on its next objects, and takes the model if that is best)")
      ->check(CLI::Range(0.0, 1e12))
      ->type_name("X");
  sub->add_option("--ms", args->ms,
                  "time for an object, with stream = \"tracks\" and in the choice")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("X");
  add_ask_options(*sub, args->at);
  sub->add_option("--token", args->token,
                  "file with the token of the site (default: api.token in its folder)")
      ->type_name("FILE");
  sub->add_flag("--json", args->json, "prints each answer as one line of JSON");
  add_set_option(*sub, args->sets);
  sub->footer(
      "Example:\n  longhaul model images.toml --file runs/specialised/model.pt --classes 3,7,1\n"
      "Exit codes: 0 every site has it, 2 bad job, usage or model, 3 a site is missing, or none\n"
      "answers, 4 internal error, 130 Ctrl-C");
  sub->callback([args, &code] { code = give_model(*args); });
}

}  // namespace longhaul::cli
