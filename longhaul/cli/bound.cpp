#include "longhaul/flow/bound.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/tree_packing.h"
#include "longhaul/run/job/site_index.h"

namespace longhaul::cli {
namespace {

struct BoundArgs : JobOptions {
  double mbytes = 25;
  std::string op = "all-reduce", root;
  bool payload = false, json = false;
  double at_s = -1;  // below 0: what changes with time counts at its highest
};

std::string_view name_of(flow::Limit::What what) {
  switch (what) {
    case flow::Limit::What::uplink:
      return "uplink";
    case flow::Limit::What::downlink:
      return "downlink";
    case flow::Limit::What::all_uplinks:
      return "all_uplinks";
    case flow::Limit::What::all_downlinks:
      return "all_downlinks";
    case flow::Limit::What::delays:
      return "delays";
    case flow::Limit::What::cut:
      break;
  }
  return "cut";
}

std::string seconds_text(double seconds) { return fmt::format("{:.4g} s", seconds); }

Result<flow::Task> task_of(const BoundArgs& args, const flow::Wan& wan) {
  flow::Task task;
  task.bytes = args.mbytes * 1e6 * (args.payload ? 1 : flow::kIpPerByte);
  if (args.op == "all-reduce") {
    if (!args.root.empty())
      return invalid("--root: an all-reduce has none; it belongs to --op broadcast");
    return task;
  }
  task.op = flow::Collective::broadcast;
  if (args.root.empty()) return task;
  const run::SiteIndex sites(wan.sites);
  const auto root = sites.find(args.root);
  if (!root)
    return invalid(
        fmt::format("--root {}: no such site{}", args.root, suggestion(args.root, sites.names())));
  task.root = *root;
  return task;
}

// The longest limit with delays, or of bandwidth alone; null: there is none.
const flow::Limit* first_limit(const flow::Bound& bound, bool of_delays) {
  for (const flow::Limit& limit : bound.limits)
    if ((limit.what == flow::Limit::What::delays) == of_delays) return &limit;
  return nullptr;
}

void print_json(const BoundArgs& args, const run::Job& job, const flow::Task& task,
                const flow::Bound& bound, const std::optional<flow::TreePacking>& trees) {
  const flow::Wan& wan = job.network;
  auto limits = nlohmann::ordered_json::array();
  for (const flow::Limit& limit : bound.limits) {
    auto sites = nlohmann::ordered_json::array();
    for (std::uint32_t site : limit.sites) sites.push_back(wan.sites[site].name);
    limits.push_back({{"kind", name_of(limit.what)},
                      {"time_s", limit.seconds},
                      {"sites", sites},
                      {"what", to_text(limit, wan)}});
  }
  nlohmann::ordered_json object = {{"name", job.job.name}, {"op", args.op}};
  if (args.op == "broadcast") object["root"] = wan.sites[task.root].name;
  object.update({{"sites", wan.sites.size()},
                 {"mbytes", args.mbytes},
                 {"ip_bytes", task.bytes},
                 {"bound_s", bound.seconds},
                 {"bandwidth_s", bound.bandwidth_s},
                 {"binds", nullptr},
                 {"limits", limits},
                 {"tree_s", nullptr}});
  if (const flow::Limit* limit = first_limit(bound, false)) object["binds"] = to_text(*limit, wan);
  if (trees) object["tree_s"] = trees->seconds;
  fmt::print("{}\n", object.dump(2));
}

void print_text(const BoundArgs& args, const run::Job& job, const flow::Task& task,
                const flow::Bound& bound, const std::optional<flow::TreePacking>& trees) {
  const flow::Wan& wan = job.network;
  fmt::print("{}: {} of {:g} MB{} among {} sites; {:.4g} MB of {} for each vector\n", job.job.name,
             args.op, args.mbytes,
             args.op == "broadcast" ? " from " + wan.sites[task.root].name : "", wan.sites.size(),
             task.bytes / 1e6, args.payload ? "payload" : "IP packets");
  if (bound.limits.empty()) {
    fmt::print("Nothing limits it: links without rates.\n");
    return;
  }
  if (const flow::Limit* limit = first_limit(bound, false))
    fmt::print("At least {}: {}.\n", seconds_text(limit->seconds), to_text(*limit, wan));
  if (const flow::Limit* limit = first_limit(bound, true))
    fmt::print("With delays at least {}: {}.\n", seconds_text(limit->seconds),
               to_text(*limit, wan));
  if (trees)
    fmt::print("{}: {}.\n",
               args.op == "broadcast" ? "Exact, by trees" : "The best plan of trees takes",
               seconds_text(trees->seconds));
  else if (wan.sites.size() > flow::kMaxSitesForTrees)
    fmt::print("No plan of trees: more than {} sites.\n", flow::kMaxSitesForTrees);
  else
    fmt::print("No plan of trees: the linear programme was not solved.\n");
  fmt::print("\n");
  std::vector<std::vector<std::string>> rows;
  for (const flow::Limit& limit : bound.limits)
    rows.push_back({to_text(limit, wan), seconds_text(limit.seconds)});
  fmt::print("{}", text_table({"limit", "at least"}, rows));
  fmt::print(
      "\nTraffic within a site is left out, and in plans of trees delays; see docs/bounds.md.\n");
}

Result<int> bound(const BoundArgs& args) {
  LH_LET(job, args.load());
  if (args.at_s >= 0)
    job.network = flow::at_time(job.network, job.job.seed, from_seconds(args.at_s));
  LH_LET(task, task_of(args, job.network));
  const flow::Bound limits = flow::lower_bound(job.network, task);
  const std::optional<flow::TreePacking> trees = flow::pack_trees(job.network, task);
  (args.json ? print_json : print_text)(args, job, task, limits, trees);
  return kDone;
}

}  // namespace

void add_bound(CLI::App& app, int& code) {
  auto args = std::make_shared<BoundArgs>();
  CLI::App* sub = app.add_subcommand(
      "bound",
      "computes lower bounds of the time of a collective, and the time of the best tree plan");
  args->add_job_to(*sub);
  option(*sub, "--mbytes", args->mbytes, "size of one vector, in MB (default: 25)", "M",
         CLI::Range(1e-6, 1e9));
  option(*sub, "--op", args->op, "the collective (default: all-reduce)", "OP",
         CLI::IsMember({"all-reduce", "broadcast"}));
  option(*sub, "--root", args->root, "the site that broadcasts (default: the first)", "SITE");
  option(*sub, "--at", args->at_s, "takes the rates of traces at this time (default: the highest)",
         "SECONDS", CLI::Range(0., 1e9));
  sub->add_flag("--payload", args->payload,
                "counts the vector without IP and TCP headers, as the simulator's FIFO queues do");
  add_json_option(*sub, args->json);
  sub->footer(
      "Example:\n  longhaul bound examples/mnist-4-sites.toml --mbytes 25 --wan gaia-11\n"
      "Exit codes: 0 done, 2 bad job or usage");
  sub->callback([args, &code] { code = code_of(bound(*args)); });
}

}  // namespace longhaul::cli
