#include "longhaul/run/focus/serve.h"

#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/cli/security_options.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/launch.h"
#include "longhaul/run/launcher_identity.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/processes.h"

namespace longhaul::cli {
namespace {

struct ServeArgs {
  std::string job, site, out, wan;
  std::vector<std::string> sets, addresses;
  std::uint16_t port = 0;
  run::Security security;
  bool force = false, rejoin = false, quiet = false, json = false;
};

Result<run::Job> load_index_job(const ServeArgs& args) {
  auto job = run::load_job(args.job, {args.sets, args.wan});
  if (job && !job->focus)
    return invalid(args.job + ": has no [focus]: it trains; use longhaul launch or site");
  if (job && args.site.empty() &&
      (!args.addresses.empty() || !args.security.keys.empty() || args.rejoin || args.port != 0))
    return invalid("--addresses, --keys, --rejoin and --port belong to --site, one of several");
  return job;
}

std::string folder_of(const ServeArgs& args, const run::Job& job) {
  return args.out.empty() ? "runs/" + job.job.name : args.out;
}

int fail_serving(const Error& error) {
  (void)print_error(error);
  return error.kind == Error::Kind::invalid_argument ? kBadUsage : kFailed;
}

// "": unknown.
std::string own_program() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/exe", none).string();
}

int serve_one(const ServeArgs& args, const run::Job& job) {
  const auto rank = run::find_node(job, args.site);
  if (!rank) return print_error(rank.error());
  auto addresses = args.addresses.empty() ? run::addresses_of(job)
                                          : Result<std::vector<std::string>>(args.addresses);
  if (!addresses) return print_error(addresses.error());
  run::ServeOptions options{.rank = *rank,
                            .addresses = *std::move(addresses),
                            .listening = run::inherited_socket(run::process_environment()),
                            .folder = run::node_folder(folder_of(args, job), job.members()[*rank]),
                            .force = args.force,
                            .rejoin = args.rejoin,
                            .program = own_program(),
                            .security = args.security,
                            .port = args.port};
  if (!args.quiet)
    options.note = [](const std::string& text) { fmt::print(stderr, "longhaul: {}\n", text); };
  const auto summary = run::serve_site(job, options);
  if (!summary) return fail_serving(summary.error());
  if (args.json)
    fmt::print("{}\n", to_json(*summary).dump(2));
  else if (!args.quiet)
    fmt::print("{}: {} objects in {} clusters, {} by the accurate model, {} sent to other sites\n",
               summary->site, summary->objects, summary->clusters, summary->accurate,
               run::bytes_text(double(summary->wan_bytes)));
  return summary->interrupted ? kInterrupted : kDone;
}

// Every site a process of this machine.
int serve_all(const ServeArgs& args, const run::Job& job) {
  const std::string program = own_program();
  if (program.empty()) return print_error(unavailable("/proc/self/exe: cannot be read"));
  run::NodeCommand command{
      program, "serve", {args.job, "--out", folder_of(args, job)}, {}, args.security.insecure};
  const auto add = [&](std::initializer_list<std::string> words) {
    command.arguments.insert(command.arguments.end(), words);
  };
  for (const std::string& set : args.sets) add({"--set", set});
  if (!args.wan.empty()) add({"--wan", args.wan});
  if (args.force) add({"--force"});
  if (args.quiet) add({"--quiet"});
  if (args.json) add({"--json"});
  run::ChildProcesses children([](const std::string& name, bool is_error, std::string_view line) {
    fmt::print(is_error ? stderr : stdout, "{}{}\n", is_error ? name + ": " : std::string(), line);
    std::fflush(is_error ? stderr : stdout);
  });
  if (const Status started = start_nodes(children, job, command, nullptr); !started)
    return print_error(started.error());
  (void)wait_for_nodes(children, nullptr);
  return exit_code(children.ends(), run::interrupted());
}

int serve(const ServeArgs& args) {
  warn_if_insecure(args.security.insecure);
  const auto job = load_index_job(args);
  if (!job) return print_error(job.error());
  return args.site.empty() ? serve_all(args, *job) : serve_one(args, *job);
}

}  // namespace

void add_serve(CLI::App& app, int& code) {
  auto args = std::make_shared<ServeArgs>();
  CLI::App* sub = app.add_subcommand(
      "serve", "indexes growing data at every site and answers queries over all of it");
  sub->add_option("JOB", args->job, "job file (TOML) with [focus]; see docs/focus.md")->required();
  sub->add_option("--site", args->site,
                  "this is that node (default: all nodes, as processes of this machine)")
      ->type_name("NAME");
  sub->add_option("--out", args->out, "folder of the indexes (default: runs/NAME)")
      ->type_name("DIR");
  sub->add_option("--addresses", args->addresses,
                  "host:port of all nodes by rank, with commas (default: [[site]] address)")
      ->delimiter(',')
      ->type_name("LIST");
  sub->add_option("--port", args->port, "of this node's users, on loopback (default: any)")
      ->type_name("PORT");
  sub->add_flag("--rejoin", args->rejoin, "comes back to sites that go on without this node");
  add_security_options(*sub, args->security);
  sub->add_flag("--force", args->force, "begins a new index; the one in the folder is removed");
  sub->add_flag("--json", args->json, "prints one JSON object for each node when it ends");
  sub->add_flag("--quiet", args->quiet, "no notes");
  add_set_option(*sub, args->sets);
  add_wan_option(*sub, args->wan);
  sub->footer(
      "Example:\n  longhaul serve examples/focus.toml &\n"
      "  longhaul query examples/focus.toml 3 --to 60\n"
      "Exit codes: 0 done, 2 bad job or usage, 3 a peer or the network failed, 4 internal error,\n"
      "130 Ctrl-C");
  sub->callback([args, &code] { code = serve(*args); });
}

}  // namespace longhaul::cli
