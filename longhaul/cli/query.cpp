#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/focus/answers.h"
#include "longhaul/run/focus/api.h"
#include "longhaul/run/focus/serve.h"
#include "longhaul/run/nodes.h"

namespace longhaul::cli {
namespace {

struct QueryArgs {
  std::string job, site, out, address;
  std::vector<std::string> sets;
  run::QueryRequest request;
  bool json = false;
};

// Whom to ask: --address, the site named, or the first that serves.
Result<std::vector<std::string>> addresses_to_ask(const QueryArgs& args, const run::Job& job) {
  if (!args.address.empty()) {
    if (const Status good = run::check_api_address(args.address); !good)
      return invalid("--address: " + good.error().what);
    return std::vector{args.address};
  }
  const std::string folder = args.out.empty() ? "runs/" + job.job.name : args.out;
  const Members members = job.members();
  if (!args.site.empty()) {
    const auto rank = run::find_node(job, args.site);
    if (!rank) return rank.error();
    auto address = run::api_address(run::node_folder(folder, members[*rank]));
    if (!address) return address.error();
    return std::vector{*std::move(address)};
  }
  std::vector<std::string> all;
  for (const Member& member : members)
    if (auto address = run::api_address(run::node_folder(folder, member)))
      all.push_back(*std::move(address));
  if (all.empty())
    return unavailable(
        fmt::format("{}: no site serves there; start longhaul serve {}, or say --out or --address",
                    folder, args.job));
  return all;
}

// Prints an answer; false: it was the last one.
bool print_answer(const std::string& line, bool as_json, int& code) {
  const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) {
    fmt::print(stderr, "longhaul: an answer that cannot be read\n");
    code = kFailed;
    return false;
  }
  const std::string kind = json["kind"].get<std::string>();
  if (as_json)
    fmt::print("{}\n", line);
  else
    fmt::print(kind == "refused" ? stderr : stdout, "{}", run::answer_text(json));
  std::fflush(stdout);
  if (kind == "refused") code = kBadUsage;
  if (kind == "ended") code = json.at("partial").get<bool>() ? kFailed : kDone;
  return kind == "found" || kind == "caught_up";
}

int query(const QueryArgs& args) {
  const auto job = run::load_job(args.job, {args.sets, ""});
  if (!job) return print_error(job.error());
  if (!job->focus) return print_error(invalid(args.job + ": has no [focus]: nothing is indexed"));
  if (args.request.from_s && args.request.to_s && *args.request.from_s > *args.request.to_s)
    return print_error(invalid("--from: expected a time not after --to"));
  const auto addresses = addresses_to_ask(args, *job);
  if (!addresses) {
    const int bad = print_error(addresses.error());
    return addresses.error().kind == Error::Kind::unavailable ? kFailed : bad;
  }
  const double patience_s = args.request.follow ? 0 : 2 * job->focus->answer_timeout_s + 10;
  Status asked = Ok{};
  for (const std::string& address : *addresses) {
    int code = -1;  // nothing has come
    asked = run::ask_site(address, args.request, patience_s, [&](const std::string& line) {
      code = kFailed;  // unless the last answer comes
      return print_answer(line, args.json, code);
    });
    if (code >= 0) {
      if (!asked) (void)print_error(asked.error());
      return code;
    }
  }
  if (asked) asked = unavailable("the site that was asked ended");
  (void)print_error(asked.error());
  return kFailed;
}

}  // namespace

void add_query(CLI::App& app, int& code) {
  auto args = std::make_shared<QueryArgs>();
  CLI::App* sub = app.add_subcommand("query", "asks the sites of longhaul serve for a class");
  sub->add_option("JOB", args->job, "job file (TOML) with [focus]; see docs/focus.md")->required();
  sub->add_option("CLASS", args->request.cls, "the number of the class looked for")->required();
  sub->add_option("--from", args->request.from_s, "objects not before this time, in seconds")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("T");
  sub->add_option("--to", args->request.to_s, "objects not after this time, in seconds")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("T");
  sub->add_option("--limit", args->request.limit, "clusters that are enough (default: all)")
      ->type_name("N");
  sub->add_flag("--follow", args->request.follow,
                "goes on with clusters that appear later, until Ctrl-C");
  sub->add_option("--site", args->site, "the site that is asked (default: the first that serves)")
      ->type_name("NAME");
  sub->add_option("--out", args->out, "the folder of longhaul serve (default: runs/NAME)")
      ->type_name("DIR");
  sub->add_option("--address", args->address, "host:port of a site's interface, in place of both")
      ->type_name("ADDRESS");
  sub->add_flag("--json", args->json, "prints each answer as one line of JSON");
  add_set_option(*sub, args->sets);
  sub->footer(
      "Examples:\n  longhaul query examples/focus.toml 3 --from 10 --to 60\n"
      "  longhaul query examples/focus.toml 3 --follow --json\n"
      "Exit codes: 0 answered by all sites, 2 bad job or usage, 3 a site is missing in the "
      "answer,\n"
      "or none answers, 4 internal error, 130 Ctrl-C");
  sub->callback([args, &code] { code = query(*args); });
}

}  // namespace longhaul::cli
