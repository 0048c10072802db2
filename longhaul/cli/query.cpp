#include <CLI/CLI.hpp>

#include "longhaul/cli/ask_options.h"
#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/focus/api.h"

namespace longhaul::cli {
namespace {

struct QueryArgs : JobOptions {
  AskOptions at;
  run::QueryRequest request;
  bool json = false;
};

Result<int> query(const QueryArgs& args) {
  LH_LET(job, args.load_index());
  if (args.request.from_s && args.request.to_s && *args.request.from_s > *args.request.to_s)
    return invalid("--from: expected a time not after --to");
  const double patience_s = args.request.follow ? 0 : 2 * job.focus->answer_timeout_s + 10;
  return ask_sites(args.at, args.job, job, args.json,
                   [&](const AskedSite& site, const OnLine& on_line) {
                     return run::ask_site(site.address, args.request, patience_s, on_line);
                   });
}

}  // namespace

void add_query(CLI::App& app, int& code) {
  auto args = std::make_shared<QueryArgs>();
  CLI::App* sub = app.add_subcommand("query", "asks the sites of longhaul serve for a class");
  args->add_job_to(*sub, kIndexJob, /*with_wan=*/false);
  sub->add_option("CLASS", args->request.cls, "number of the class")->required();
  option(*sub, "--from", args->request.from_s, "objects from this time on, in seconds", "T",
         CLI::Range(0.0, 1e9));
  option(*sub, "--to", args->request.to_s, "objects until this time, in seconds", "T",
         CLI::Range(0.0, 1e9));
  option(*sub, "--limit", args->request.limit, "largest number of clusters (default: all)", "N");
  sub->add_flag("--follow", args->request.follow,
                "also prints clusters that appear later, until Ctrl-C");
  add_ask_options(*sub, args->at);
  sub->add_flag("--json", args->json, "prints each answer as a line of JSON");
  sub->footer(
      "Examples:\n  longhaul query examples/focus.toml 3 --from 10 --to 60\n"
      "  longhaul query examples/focus.toml 3 --follow --json\n"
      "Exit codes: 0 all sites answered, 2 bad job or usage, or refused, 3 a site is missing or "
      "none\n"
      "answers, 4 internal error, 130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(query(*args)); });
}

}  // namespace longhaul::cli
