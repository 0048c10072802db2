#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/live_page.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/report/seed_ranges.h"
#include "longhaul/run/focus/simulation.h"
#include "longhaul/run/interrupt.h"

namespace longhaul::cli {
namespace {

using run::Summary;

struct SimulateArgs {
  RunOptions common;
  std::uint64_t seeds = 1;
  std::string checkpoint_every;
  bool dry_run = false;
};

Result<int> dry_run(const run::Job& job, bool json) {
  LH_LET(prediction, run::predict(job, embedding().learners));
  const run::Prediction& p = prediction;
  if (json) {
    const nlohmann::ordered_json object = {{"name", job.job.name},
                                           {"dry_run", true},
                                           {"rounds", p.rounds},
                                           {"simulated_rounds", p.simulated},
                                           {"time_s", p.time_s},
                                           {"round_s", p.round_s},
                                           {"wan_bytes", std::llround(p.wan_bytes)},
                                           {"round_wan_bytes", std::llround(p.round_bytes)},
                                           {"parameters", p.parameters},
                                           {"compute_utilisation", p.compute_utilisation}};
    fmt::print("{}\n", object.dump(2));
    return kDone;
  }
  fmt::print(
      "{}: predicted from {} rounds without numbers, extrapolated to max_rounds = {}\n"
      "  {} of virtual time ({} a round), {} between sites ({} a round)\n"
      "  compute utilisation {:.2f} %, {} values in the model\n"
      "  a target may end the run earlier; nothing was trained or written\n",
      job.job.name, p.simulated, p.rounds, run::duration_text(p.time_s),
      run::duration_text(p.round_s), run::bytes_text(p.wan_bytes), run::bytes_text(p.round_bytes),
      100 * p.compute_utilisation, p.parameters);
  return kDone;
}

// A job with [focus]: nothing is trained or written.
Result<int> simulate_index(const SimulateArgs& args, const run::Job& job) {
  if (args.dry_run || args.seeds > 1 || args.common.resume || !args.common.record.empty())
    return invalid(
        "--dry-run, --seeds, --resume and --record are for training; this job has [focus]");
  const auto result = run::simulate_focus(job);
  if (!result) {
    const int code = print_error(result.error());
    return run::interrupted() ? kInterrupted : code;
  }
  if (args.common.json) {
    fmt::print("{}\n", to_json(*result).dump(2));
    return kDone;
  }
  const auto time = [](const std::optional<double>& s) {
    return s ? run::duration_text(*s) : std::string("-");
  };
  std::vector<std::vector<std::string>> queries, sites;
  for (const run::FocusQueryResult& q : result->queries)
    queries.push_back({fmt::format("class {}", q.cls), q.site, fmt::format("{:g} s", q.asked_s),
                       time(q.first_s), time(q.latency_s), std::to_string(q.clusters),
                       std::to_string(q.objects), std::to_string(q.checked),
                       std::to_string(q.cached)});
  for (const run::FocusModelResult& m : result->models)
    fmt::print("model {} of {}, given at {:g} s: {}\n", m.version, m.site, m.given_s,
               m.version == 0 ? "refused: " + m.why
                              : fmt::format("{} sites have it after {}, {} are missing",
                                            m.taken.size(), time(m.latency_s), m.missing.size()));
  for (const run::FocusSiteResult& s : result->sites)
    sites.push_back({s.site, std::to_string(s.objects), std::to_string(s.clusters),
                     std::to_string(s.cheap_objects), std::to_string(s.accurate_objects),
                     run::duration_text(s.computing_s)});
  if (!queries.empty())
    fmt::print("{}\n", text_table({"query", "at", "asked", "first", "all", "clusters", "objects",
                                   "checked", "known"},
                                  queries));
  fmt::print(
      "{}",
      text_table({result->name, "objects", "clusters", "cheap", "accurate", "computing"}, sites));
  fmt::print("{} of virtual time, {} between sites\n", run::duration_text(result->time_s),
             run::bytes_text(double(result->wan_bytes)));
  return kDone;
}

Result<int> one_run(const SimulateArgs& args, const run::Job& job, const std::string& folder) {
  LH_LET(page, view_if_asked(folder, args.common.view, args.common.quiet));
  LH_LET(summary, run::simulate(job, args.common.one(folder)));
  if (args.common.json)
    fmt::print("{}", run::summary_text(summary));
  else
    print_run(summary, folder, "virtual time");
  if (const std::string hint = run::chance_hint(job, summary); !args.common.json && !hint.empty())
    fmt::print("  no better than chance; {}\n", hint);
  if (is_interrupted(summary)) print_resume_hint({folder});
  return exit_code(summary, args.common.require_target);
}

struct Measure {
  const char* name;
  std::optional<double> (*of)(const Summary&);
};
constexpr Measure kMeasures[] = {
    {"time_s", [](const Summary& s) { return std::optional(s.time_s); }},
    {"time_to_target_s", [](const Summary& s) { return s.time_to_target_s; }},
    {"final_accuracy", [](const Summary& s) { return s.final_accuracy; }},
    {"final_loss", [](const Summary& s) { return s.final_loss; }},
    {"bits_per_byte", [](const Summary& s) { return s.bits_per_byte(); }},
    {"rounds", [](const Summary& s) { return std::optional(double(s.rounds)); }},
    {"wan_bytes", [](const Summary& s) { return std::optional(double(s.wan_bytes)); }},
    {"compute_utilisation", [](const Summary& s) { return std::optional(s.compute_utilisation); }},
};

// Over the runs that ended by themselves: how far an interrupted one came is no measure of the job.
void print_seeds(const run::Job& job, const std::vector<Summary>& begun, bool json) {
  nlohmann::ordered_json object = {{"name", job.job.name},
                                   {"seeds", nlohmann::json::array()},
                                   {"interrupted", nlohmann::json::array()}};
  std::vector<std::vector<std::string>> rows;
  std::vector<Summary> all;
  for (const Summary& summary : begun) {
    object[is_interrupted(summary) ? "interrupted" : "seeds"].push_back(summary.seed);
    if (!is_interrupted(summary)) all.push_back(summary);
  }
  for (const Measure& measure : kMeasures) {
    std::vector<double> values;
    for (const Summary& summary : all)
      if (const auto value = measure.of(summary)) values.push_back(*value);
    const auto spread = report::spread_of(values);
    if (!spread) continue;
    object[measure.name] = {{"median", spread->median},
                            {"min", spread->min},
                            {"max", spread->max},
                            {"runs", values.size()}};
    rows.push_back({measure.name, fmt::format("{:.6g}", spread->median),
                    fmt::format("{:.6g}", spread->min), fmt::format("{:.6g}", spread->max),
                    fmt::format("{} of {}", values.size(), all.size())});
  }
  if (json)
    fmt::print("{}\n", object.dump(2));
  else
    fmt::print("{}", text_table({job.job.name, "median", "min", "max", "runs"}, rows));
  for (const Summary& summary : begun)
    if (is_interrupted(summary) && !json)
      fmt::print("seed {}: interrupted after {} rounds; not in the table\n", summary.seed,
                 summary.rounds);
}

Result<int> many_seeds(const SimulateArgs& args, const run::Job& first, const std::string& folder) {
  std::vector<Summary> all;
  int worst = kDone;
  for (std::uint64_t i = 0; i < args.seeds; ++i) {
    auto job = args.common.load({fmt::format("job.seed={}", first.job.seed + i)});
    if (!job) return job.error();
    LH_LET(summary, run::simulate(*job, args.common.one_of_several(
                                            fmt::format("{}/seed-{}", folder, job->job.seed))));
    all.push_back(summary);
    worst = std::max(worst, exit_code(summary, args.common.require_target));
    if (worst == kInterrupted) break;
  }
  print_seeds(first, all, args.common.json);
  if (worst == kInterrupted) print_resume_hint();
  return worst;
}

Result<int> simulate(const SimulateArgs& args) {
  std::vector<std::string> more;
  if (!args.checkpoint_every.empty())
    more.push_back("job.checkpoint_every=" + args.checkpoint_every);
  SimulateArgs with = args;
  with.common.sets.insert(with.common.sets.end(), more.begin(), more.end());
  LH_LET(job, with.common.load());
  if (args.common.view >= 0 && (job.focus || args.dry_run || args.seeds > 1))
    return invalid("--view shows one training run: without --dry-run and --seeds");
  if (job.focus) return simulate_index(with, job);
  if (args.dry_run) return dry_run(job, args.common.json);
  const std::string folder = args.common.run_folder(job.job.name);
  return args.seeds > 1 ? many_seeds(with, job, folder) : one_run(with, job, folder);
}

}  // namespace

void add_simulate(CLI::App& app, int& code) {
  auto args = std::make_shared<SimulateArgs>();
  CLI::App* sub = app.add_subcommand("simulate", "trains in virtual time on a simulated network");
  args->common.add_to(*sub, "runs/NAME",
                      "continues an interrupted run, bit-identically; with --seeds, all of them");
  option(*sub, "--checkpoint-every", args->checkpoint_every,
         "rounds between checkpoints (default: [job] checkpoint_every)", "K");
  option(*sub, "--seeds", args->seeds,
         "runs N seeds, the job's and the next ones, in DIR/seed-S; prints median and range", "N",
         CLI::Range(std::uint64_t{1}, std::uint64_t{10000}));
  sub->add_option("--until", args->common.until_s,
                  "for compare and plan: cuts the run at this virtual time, in s")
      ->check(CLI::PositiveNumber)
      ->group("");
  CLI::Option* record = args->common.add_record_to(*sub);
  args->common.add_view_to(*sub);
  sub->add_flag("--dry-run", args->dry_run,
                "predicts time and bytes from a few rounds; trains and writes nothing")
      ->excludes(record);
  sub->footer(
      "Example:\n  longhaul simulate examples/mnist-4-sites.toml --set sync.kind=bsp --seeds 3\n"
      "Exit codes: 0 the run ended as configured, 1 diverged, or --require-target and below it,\n"
      "2 bad job or usage, 3 failed, 4 internal error, 130 Ctrl-C");
  sub->callback([args, &code] { code = code_of(simulate(*args)); });
}

}  // namespace longhaul::cli
