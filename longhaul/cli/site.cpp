#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/base/printable.h"
#include "longhaul/cli/cli.h"
#include "longhaul/cli/live_page.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/site.h"

namespace longhaul::cli {
namespace {

struct SiteArgs {
  RunOptions common;
  std::string site;
  std::vector<std::string> addresses;
  std::optional<std::uint16_t> base_port;
  bool rejoin = false;
  bool faults_are_made = false;
  run::Security security;
};

// Returns the rank from --site, or from the launcher of this process.
Result<Rank> own_rank(const SiteArgs& args, const run::Job& job) {
  if (!args.site.empty()) return run::find_node(job, args.site);
  LH_LET(who, run::launcher_identity(run::process_environment()));
  if (!who)
    return invalid(
        "which node of the job is this? Say --site NAME, or start it with torchrun, mpirun or "
        "srun");
  const std::size_t nodes = job.members().size();
  if ((*who).size != nodes)
    return invalid(fmt::format("{} started {} processes, but {} has {} nodes", (*who).launcher,
                               (*who).size, job.file, nodes));
  return (*who).rank;
}

Result<std::vector<std::string>> addresses_of(const SiteArgs& args, const run::Job& job) {
  const std::size_t nodes = job.members().size();
  if (!args.addresses.empty()) {
    if (args.addresses.size() != nodes)
      return invalid(fmt::format("--addresses: {} given, but {} has {} nodes",
                                 args.addresses.size(), job.file, nodes));
    return args.addresses;
  }
  bool none = true;
  for (const run::SiteTable& site : job.sites) none &= site.address.empty();
  const bool started = args.site.empty();  // by a launcher, on one host by default
  if (none && (started || args.base_port))
    return run::local_addresses(run::process_environment(), nodes, args.base_port);
  return run::addresses_of(job);
}

void print_summary(const run::Summary& s, const std::string& name, const std::string& folder) {
  if (s.time_s == 0 && s.params_hash.empty() && s.rounds == 0) {
    fmt::print("{}: nothing was begun or resumed ({}); a run in {} is as it was\n", name,
               run::to_string(s.stop_reason), folder);
    return;
  }
  fmt::print("{}: {} rounds in {} ({}), {} sent to other sites\n", name, s.rounds,
             run::duration_text(s.time_s), run::to_string(s.stop_reason),
             run::bytes_text(double(s.wan_bytes)));
  fmt::print("  {}\n", evaluation_text(s.final_accuracy, s.final_loss));
  fmt::print("{}", site_scores_text(s));
  if (!s.params_hash.empty()) fmt::print("  params_hash {}\n", s.params_hash);
  fmt::print("{}  written to {}\n", pace_text(s), folder);
}

Result<int> site(const SiteArgs& args) {
  warn_if_insecure(args.security.insecure);
  LH_LET(job, args.common.load());
  LH_LET(rank, own_rank(args, job));
  LH_LET(addresses, addresses_of(args, job));
  const Member me = job.members()[rank];
  // All processes of a launcher have the same --out.
  const std::string run = args.common.run_folder(job.job.name);
  const bool own = !args.common.out.empty() && !args.site.empty();
  const std::string folder = own ? run : run::node_folder(run, me);
  LH_LET(page, view_if_asked(folder, args.common.view, args.common.quiet));
  const bool insists = args.common.force || (args.common.resume && !args.rejoin);
  const run::SimulateOptions common = args.common.one(folder);
  LH_LET(summary,
         run::run_site(
             job, {.rank = rank,
                   .addresses = std::move(addresses),
                   .listening = run::inherited_socket(run::process_environment()),
                   .folder = folder,
                   .existing = insists ? common.existing : run::ExistingFolder::resume_or_begin,
                   .rejoin = args.rejoin,
                   .faults_are_made = args.faults_are_made,
                   .progress = common.progress,
                   .security = args.security,
                   .record = common.record,
                   .learners = embedding().learners}));
  std::error_code code;
  if (args.common.json)
    fmt::print("{}", run::summary_text(summary));
  else if (std::filesystem::exists(folder, code))  // not if the run could not begin
    print_summary(summary, run::node_name(me), folder);
  print_trouble(summary);
  if (is_interrupted(summary)) print_resume_hint({folder});
  return exit_code(summary, args.common.require_target);
}

}  // namespace

void add_site(CLI::App& app, int& code) {
  auto args = std::make_shared<SiteArgs>();
  CLI::App* sub = app.add_subcommand("site", "runs one node of a job, over sockets");
  args->common.add_to(*sub, "runs/NAME/SITE; under a launcher DIR/SITE",
                      "fails unless it can continue an interrupted run", false);
  option(*sub, "--site", args->site,
         "this node: a site's name, or NAME/1 for its second node (default: the rank from "
         "torchrun, mpirun, srun or PMI)",
         "NAME");
  option(*sub, "--addresses", args->addresses,
         "host:port of all nodes by rank, with commas (default: [[site]] address)", "LIST")
      ->delimiter(',');
  option(*sub, "--base-port", args->base_port,
         "all nodes are on this machine, rank r at PORT+r (default under a launcher: "
         "MASTER_PORT+1, or 29600)",
         "PORT");
  args->common.add_record_to(*sub);
  args->common.add_view_to(*sub);
  sub->add_flag("--rejoin", args->rejoin,
                "fails unless it can rejoin a run that continues without this node; the others "
                "send the model (longhaul explain SYNC: a lost node may return)");
  sub->add_flag("--faults-are-made", args->faults_are_made)->group("");  // for launch --lab
  add_security_options(*sub, args->security);
  sub->footer(
      "Example:\n  longhaul site examples/mnist-4-sites.toml --site virginia --keys keys\n"
      "It joins a new run, resumes a stopped one or rejoins a running one, as the others decide.\n"
      "Exit codes: 0 the run ended as configured, 1 diverged, or --require-target and below it,\n"
      "2 bad job or usage, 3 a peer or the network failed, 4 internal error, 130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(site(*args)); });
}

}  // namespace longhaul::cli
