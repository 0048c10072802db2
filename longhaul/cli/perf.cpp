#include "longhaul/run/perf.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/lab.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/progress.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {
namespace {

struct PerfArgs : JobOptions {
  std::string overlay, op = "all-reduce", site;
  run::PerfTask task;
  std::vector<std::string> addresses;
  run::Security security;
  bool lab = false, local = false, quiet = false, json = false;

  bool sockets() const { return lab || local || !site.empty(); }
};

Result<run::Job> load(const PerfArgs& args) {
  std::vector<std::string> more;
  if (!args.overlay.empty()) more.push_back("overlay.kind=" + args.overlay);
  auto job = args.load(more);
  if (!job) return job;
  LH_TRY(run::check_perf(*job, args.task, args.sockets()));
  if (args.site.empty() && (!args.addresses.empty() || !args.security.keys.empty()))
    return invalid("--addresses and --keys belong to --site, one node of several");
  if (!args.sockets() && args.security.insecure)
    return invalid("--insecure belongs to --site, --local and --lab: the simulator has no sockets");
  if (args.lab) LH_TRY(run::Lab::possible(*job));
  return job;
}

// Prints the error of a failed run. Only an invalid argument is bad usage.
int print_failure(const Error& error) {
  (void)print_error(error);
  if (run::interrupted()) return kInterrupted;
  return error.kind == Error::Kind::invalid_argument ? kBadUsage : kFailed;
}

run::PerfProgress progress_of(const PerfArgs& args) {
  if (args.quiet) return {};
  return [laps = args.task.repeat](Round lap, double seconds) {
    const std::string which = lap == 0 ? "warm-up" : fmt::format("lap {} of {}", lap, laps);
    fmt::print(stderr, "{}: {:.4g} s\n", which, seconds);
    std::fflush(stderr);
  };
}

std::string_view in_words(run::PerfPlace place) {
  constexpr std::string_view words[] = {"in the simulator", "over the emulated WAN",
                                        "over this machine's loopback", "over real sockets"};
  return words[std::size_t(place)];
}

void print(const PerfArgs& args, const run::Job& job, const run::PerfResult& result) {
  if (args.json) {
    fmt::print("{}\n", to_json(job, args.task, result).dump(2));
    return;
  }
  const run::PerfFigures f = figures_of(job, args.task, result);
  const auto rate = [](const std::optional<double>& mbps) {
    return mbps ? fmt::format("{:.4g} Mbit/s", *mbps) : std::string("-");
  };
  fmt::print("{}: {} of {:g} MB over {} among {} nodes of {} sites, {}\n", job.job.name, args.op,
             args.task.mbytes, job.overlay.entry->name, job.workers(), job.sites.size(),
             in_words(result.place));
  const std::vector<std::string> median = {fmt::format("time (median of {})", args.task.repeat),
                                           fmt::format("{:.4g} s", f.time_s)};
  const std::vector<std::vector<std::string>> rows = {
      {"fastest", fmt::format("{:.4g} s", f.min_s)},
      {"slowest", fmt::format("{:.4g} s", f.max_s)},
      {"last in it", result.last},
      {"goodput", rate(f.goodput_mbps)},
      {"bus bandwidth", rate(f.bus_mbps)},
      {"between sites", run::bytes_text(double(result.wan_bytes))},
      {"bound", f.bound_s ? fmt::format("{:.4g} s", *f.bound_s) : "-"},
      {"of bandwidth alone", f.bandwidth_s ? fmt::format("{:.4g} s", *f.bandwidth_s) : "-"},
      {"time / bound", f.ratio ? fmt::format("{:.3f}", *f.ratio) : "-"}};
  fmt::print("{}", text_table(median, rows));
  if (result.lab) fmt::print("{}\n", lab_text(*result.lab));
}

// Words that make another process do the same.
std::vector<std::string> task_words(const PerfArgs& args) {
  std::vector<std::string> words = {"--mbytes", fmt::format("{}", args.task.mbytes),
                                    "--repeat", std::to_string(args.task.repeat),
                                    "--op",     args.op};
  const auto add = [&](const std::string& option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--root", args.task.root);
  add("--overlay", args.overlay);
  if (args.quiet) words.push_back("--quiet");
  return words;
}

Result<int> launched(const PerfArgs& args, const run::Job& job) {
  LH_LET(program, run::own_program());
  run::PerfLaunch with{.program = program,
                       .arguments = args.job_arguments(),
                       .task = task_words(args),
                       .lab = args.lab,
                       .insecure = args.security.insecure};
  with.line = [](const std::string& name, bool, std::string_view line) {
    fmt::print(stderr, "{}: {}\n", name, line);
    std::fflush(stderr);
  };
  auto done = run::perf_launched(job, with);
  if (!done) return print_failure(done.error());
  if (done->result) print(args, job, *done->result);
  return done->exit_code;
}

Result<int> one_site(const PerfArgs& args, const run::Job& job) {
  LH_LET(rank, run::find_node(job, args.site));
  LH_LET(addresses, args.addresses.empty() ? run::addresses_of(job)
                                           : Result<std::vector<std::string>>(args.addresses));
  const run::PerfSite site{
      .rank = rank,
      .addresses = std::move(addresses),
      .listening = run::inherited_socket(run::process_environment()),
      .security = args.security,
      .note = [](const std::string& text) { fmt::print(stderr, "longhaul: {}\n", text); }};
  auto result = run::perf_site(job, args.task, site, progress_of(args));
  if (!result) return print_failure(result.error());
  if (*result)
    print(args, job, **result);
  else if (!args.quiet && !args.json)
    fmt::print(stderr, "{}: done; {} has the result\n", args.site,
               run::node_name(job.members().front()));
  return kDone;
}

Result<int> perf(PerfArgs args) {
  args.task.broadcast = args.op == "broadcast";
  LH_LET(job, load(args));
  if (args.task.broadcast) job.net.pacing = "off";  // the plan is that of a mean
  warn_if_insecure(args.security.insecure);
  if (args.lab || args.local) return launched(args, job);
  if (!args.site.empty()) return one_site(args, job);
  auto result = run::perf_simulated(job, args.task, progress_of(args));
  if (!result) return print_failure(result.error());
  print(args, job, *result);
  return kDone;
}

void add_task(CLI::App& sub, PerfArgs& args) {
  args.add_job_to(sub);
  option(sub, "--overlay", args.overlay, "replaces the job's [overlay] kind", "KIND");
  option(sub, "--mbytes", args.task.mbytes, "size of the vector, in MB (default: 25)", "M",
         CLI::Range(1e-5, 1e6));
  option(sub, "--repeat", args.task.repeat, "exchanges that count, after a warm-up (default: 3)",
         "N", CLI::Range(Round{1}, Round{1000}));
  option(sub, "--op", args.op, "the collective (default: all-reduce)", "OP",
         CLI::IsMember({"all-reduce", "broadcast"}));
  option(sub, "--root", args.task.root, "the site that broadcasts (default: the first)", "SITE");
}

}  // namespace

void add_perf(CLI::App& app, int& code) {
  auto args = std::make_shared<PerfArgs>();
  CLI::App* sub = app.add_subcommand(
      "perf", "times one all-reduce or broadcast over an overlay, simulated or over sockets");
  add_task(*sub, *args);
  CLI::Option* lab =
      sub->add_flag("--lab", args->lab, "processes over the emulated WAN (docs/lab.md; as root)");
  CLI::Option* local =
      sub->add_flag("--local", args->local, "processes over this machine's loopback");
  CLI::Option* site =
      option(*sub, "--site", args->site,
             "runs this node of a real deployment; the first prints the result", "NAME");
  lab->excludes(local)->excludes(site);
  local->excludes(site);
  option(*sub, "--addresses", args->addresses,
         "host:port of all nodes by rank, with commas (default: [[site]] address)", "LIST")
      ->delimiter(',');
  add_security_options(*sub, args->security);
  add_json_option(*sub, args->json);
  sub->add_flag("--quiet", args->quiet, "no progress");
  sub->footer(
      "Examples:\n  longhaul perf examples/mnist-4-sites.toml --overlay ring --mbytes 25\n"
      "  longhaul perf examples/bsp.toml --mbytes 2 --lab\n"
      "Exit codes: 0 done, 2 bad job or usage, 3 a node, the network or a value was wrong or lost, "
      "4 internal error,\n"
      "130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(perf(*args)); });
}

}  // namespace longhaul::cli
