#include <signal.h>

#include <cerrno>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/progress.h"
#include "longhaul/run/status_file.h"

namespace longhaul::cli {
namespace {

constexpr double kFresh = 5;  // s; nodes write once a second

bool on_this_host(const run::NodeStatus& node) {
  return !node.host.empty() && node.host == run::host_name();
}

bool is_gone(const run::NodeStatus& node) {
  return on_this_host(node) && ::kill(pid_t(node.process), 0) != 0 && errno == ESRCH;
}

// Returns the known state of a node: a process that was killed could not record its end.
std::string state_of(const run::NodeStatus& node, double age_s) {
  if (node.state == "ended") return "ended";
  if (is_gone(node)) return "gone: process " + std::to_string(node.process) + " is no more";
  if (age_s > kFresh) return fmt::format("{}, as of {} ago", node.state, run::duration_text(age_s));
  return node.state;
}

std::string waits_of(const run::NodeStatus& node) {
  std::string text;
  if (node.state != "ended" && !node.waits_for.empty())
    text = fmt::format("for {} since {}", node.waits_for, run::duration_text(node.waited_s));
  for (const auto& one : node.silent)
    text += fmt::format("{}{} silent for {}", text.empty() ? "" : "; ", one.peer,
                        run::duration_text(one.silent_s));
  return text;
}

Result<int> status(const std::string& folder, bool json) {
  LH_LET(nodes, run::read_statuses(folder));
  const double now = run::unix_time();
  nlohmann::json all = nlohmann::json::array();
  if (!json) fmt::print("{:<16} {:>12} {:>7}  {}\n", "site", "round", "live", "state");
  for (const run::NodeStatus& node : nodes) {
    const double age_s = std::max(0.0, now - node.written_s);
    if (json) {
      all.push_back(run::json_of<nlohmann::json>(node));
      all.back()["age_s"] = age_s;
      all.back()["gone"] = node.state != "ended" && is_gone(node);
      continue;
    }
    const std::string waits = waits_of(node);
    fmt::print("{:<16} {:>12} {:>7}  {}{}{}\n", node.site,
               fmt::format("{}/{}", node.rounds, node.max_rounds),
               fmt::format("{}/{}", node.live, node.members), state_of(node, age_s),
               waits.empty() ? "" : " ", waits);
  }
  if (json) fmt::print("{}\n", json_text(all));
  return kDone;
}

}  // namespace

void add_status(CLI::App& app, int& code) {
  struct StatusArgs {
    std::string folder;
    bool json = false;
  };
  auto args = std::make_shared<StatusArgs>();
  CLI::App* sub =
      app.add_subcommand("status", "shows what each node of a run does and what it waits for");
  sub->add_option("RUN", args->folder, "folder of the run")->required();
  sub->add_flag("--json", args->json, "prints a JSON list with an object for each node");
  sub->footer(
      "Example:\n  longhaul status runs/mnist-4-sites\n"
      "Nodes write their state once a second, each on its own machine.\n"
      "Exit codes: 0 done, 2 no run there");
  sub->callback([args, &code] { code = code_of(status(args->folder, args->json)); });
}

}  // namespace longhaul::cli
