#include "longhaul/run/focus/serve.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/launch.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/processes.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {
namespace {

struct ServeArgs : JobOptions {
  std::string site, out;
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  run::Security security;
  bool force = false, rejoin = false, quiet = false, json = false;
};

Result<run::Job> load_index_job(const ServeArgs& args) {
  auto job = args.load_index("it trains; use longhaul launch or site");
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

Result<int> serve_one(const ServeArgs& args, const run::Job& job) {
  const auto program = run::own_program();
  LH_LET(rank, run::find_node(job, args.site));
  LH_LET(addresses, args.addresses.empty() ? run::addresses_of(job)
                                           : Result<std::vector<std::string>>(args.addresses));
  run::ServeOptions options{.rank = rank,
                            .addresses = std::move(addresses),
                            .listening = run::inherited_socket(run::process_environment()),
                            .folder = run::node_folder(folder_of(args, job), job.members()[rank]),
                            .force = args.force,
                            .rejoin = args.rejoin,
                            .program = program ? program->front() : "",
                            .security = args.security,
                            .port = args.port};
  if (!args.quiet)
    options.note = [](const std::string& text) { fmt::print(stderr, "longhaul: {}\n", text); };
  const auto summary = run::serve_site(job, options);
  if (!summary) return fail_serving(summary.error());
  if (args.json)
    fmt::print("{}\n", run::json_of(*summary).dump(2));
  else if (!args.quiet)
    fmt::print("{}: {} objects in {} clusters, {} by the accurate model, {} sent to other sites\n",
               summary->site, summary->objects, summary->clusters, summary->accurate_objects,
               run::bytes_text(double(summary->wan_bytes)));
  return summary->interrupted ? kInterrupted : kDone;
}

// Every site a process of this machine.
Result<int> serve_all(const ServeArgs& args, const run::Job& job) {
  LH_LET(program, run::own_program());
  run::NodeCommand command{program, "serve", args.job_arguments(), {}, args.security.insecure};
  const auto add = [&](std::initializer_list<std::string> words) {
    command.arguments.insert(command.arguments.end(), words);
  };
  add({"--out", folder_of(args, job)});
  if (args.force) add({"--force"});
  if (args.quiet) add({"--quiet"});
  if (args.json) add({"--json"});
  run::ChildProcesses children([](const std::string& name, bool is_error, std::string_view line) {
    fmt::print(is_error ? stderr : stdout, "{}{}\n", is_error ? name + ": " : std::string(), line);
    std::fflush(is_error ? stderr : stdout);
  });
  LH_TRY(run::NodeProcesses(children, job, command, nullptr).start_all());
  (void)wait_for_nodes(children, nullptr);
  return exit_code(children.ends(), run::interrupted());
}

Result<int> serve(const ServeArgs& args) {
  warn_if_insecure(args.security.insecure);
  LH_LET(job, load_index_job(args));
  return args.site.empty() ? serve_all(args, job) : serve_one(args, job);
}

}  // namespace

void add_serve(CLI::App& app, int& code) {
  auto args = std::make_shared<ServeArgs>();
  CLI::App* sub =
      app.add_subcommand("serve", "indexes growing data at every site and answers queries over it");
  args->add_job_to(*sub, kIndexJob);
  option(*sub, "--site", args->site,
         "runs this node (default: all nodes, as processes of this machine)", "NAME");
  option(*sub, "--out", args->out, "folder of the indexes (default: runs/NAME)", "DIR");
  option(*sub, "--addresses", args->addresses,
         "host:port of all nodes by rank, with commas (default: [[site]] address)", "LIST")
      ->delimiter(',');
  option(*sub, "--port", args->port,
         "port of the node's HTTP interface on 127.0.0.1 (default: any)", "PORT");
  sub->add_flag("--rejoin", args->rejoin, "rejoins sites that continue without this node");
  add_security_options(*sub, args->security);
  sub->add_flag("--force", args->force, "begins a new index and removes the one in the folder");
  sub->add_flag("--json", args->json, "prints a JSON object for each node at its end");
  sub->add_flag("--quiet", args->quiet, "no progress");
  sub->footer(
      "Example:\n  longhaul serve examples/focus.toml &\n"
      "  longhaul query examples/focus.toml 3 --to 60\n"
      "Exit codes: 0 duration_s has passed, 2 bad job or usage, 3 a peer or the network failed, 4 "
      "internal error,\n"
      "130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(serve(*args)); });
}

}  // namespace longhaul::cli
