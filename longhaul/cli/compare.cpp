#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/compare_jobs.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"

namespace longhaul::cli {
namespace {

using run::Summary;

struct CompareArgs {
  RunOptions common;
  std::vector<std::string> syncs, overlays;
};

std::string percent(const std::optional<double>& share, int digits) {
  return share ? fmt::format("{:.{}f} %", 100 * *share, digits) : "-";
}

std::string target_head(const Summary& s) {
  if (s.target_bits_per_byte) return fmt::format("time to {:g} bits", *s.target_bits_per_byte);
  return s.target_accuracy ? fmt::format("time to {:g} %", 100 * *s.target_accuracy)
                           : std::string("time");
}

std::vector<std::string> row_of(const std::string& label, const Summary& s) {
  const std::string time = is_interrupted(s)    ? "interrupted"
                           : !s.has_target()    ? run::duration_text(s.time_s)
                           : s.time_to_target_s ? run::duration_text(*s.time_to_target_s)
                                                : std::string("not reached");
  return {
      label,
      s.overlay,
      time,
      fmt::format("{}", s.rounds),
      fmt::format("{:.2f}", double(s.wan_bytes) / 1e6),
      percent(s.compute_utilisation, 1),
      s.bits_per_byte() ? fmt::format("{:.4f}", *s.bits_per_byte()) : percent(s.final_accuracy, 2),
      run::duration_text(s.real_s)};
}

int compare(const CompareArgs& args) {
  auto entries = compared_jobs(args.common, args.syncs, args.overlays);
  if (!entries) return print_error(entries.error());
  const std::string base = args.common.out.empty()
                               ? "runs/" + entries->front().job.job.name + "-compare"
                               : args.common.out;
  std::vector<std::vector<std::string>> rows;
  auto results = nlohmann::ordered_json::array();
  int worst = kDone;
  std::string head, score;
  for (const ComparedJob& entry : *entries) {
    auto summary = run::simulate(entry.job, args.common.one_of_several(base + "/" + entry.label));
    if (!summary) return print_error(summary.error());
    head = target_head(*summary);
    score = summary->data == "text" ? "bits/byte" : "accuracy";
    rows.push_back(row_of(entry.label, *summary));
    results.push_back(to_json(*summary));
    worst = std::max(worst, exit_code(*summary, args.common.require_target));
    if (worst == kInterrupted) break;
  }
  if (args.common.json) {
    const nlohmann::ordered_json object = {{"name", entries->front().job.job.name},
                                           {"runs", results}};
    fmt::print("{}\n", object.dump(2));
  } else {
    fmt::print("{}", text_table({entries->front().job.job.name, "overlay", head, "rounds", "WAN MB",
                                 "computing", score, "real time"},
                                rows));
    fmt::print(
        "\nTimes are virtual but for the last column; computing is the share of it that sites "
        "spend on gradients.\nRuns are in {}/\n",
        base);
  }
  if (worst == kInterrupted) print_resume_hint();
  return worst;
}

}  // namespace

void add_compare(CLI::App& app, int& code) {
  auto args = std::make_shared<CompareArgs>();
  CLI::App* sub = app.add_subcommand("compare", "runs one job with several strategies; one table");
  args->common.add_to(*sub, "runs/NAME-compare",
                      "keeps finished runs, continues interrupted ones, starts the others");
  sub->add_option("--sync", args->syncs, "sync kinds, separated by commas")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B,C");
  sub->add_option("--overlay", args->overlays, "overlay kinds (default: the job's)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B");
  add_wan_option(*sub, args->common.wan);
  sub->footer(
      "Example:\n  longhaul compare examples/mnist-4-sites.toml --sync bsp,fedavg,diloco\n"
      "The job file's [for.KIND.TABLE] tables hold what only one strategy needs.");
  sub->callback([args, &code] { code = compare(*args); });
}

}  // namespace longhaul::cli
