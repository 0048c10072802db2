#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/compare_jobs.h"
#include "longhaul/cli/compare_ranking.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/rates.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/run_pool.h"
#include "longhaul/run/torch_library.h"

namespace longhaul::cli {
namespace {

using run::Summary;

struct CompareArgs {
  RunOptions common;
  CompareAxes axes;
  unsigned at_once = 1;
  std::string emit;
  bool gather = false;
  bool tune = false;
};

// One run, before and after it.
struct ComparedRun {
  const ComparedJob* job = nullptr;
  std::string folder = {}, job_file = {};
  std::optional<Summary> summary = {};
  std::string failure = {};  // reason for a missing result
  int code = kDone;
};

bool is_over(const Summary& s) {
  return s.stop_reason < run::StopReason::interrupted ||
         s.stop_reason == run::StopReason::diverged ||
         s.stop_reason == run::StopReason::participation;
}

// Reads the results of finished runs of these jobs, with the same budgets, from the folders.
Status look(std::vector<ComparedRun>& runs) {
  for (ComparedRun& one : runs) {
    LH_LET(summary, run::read_summary(one.folder));
    one.summary = std::move(summary);
    if (one.summary && is_over(*one.summary)) {
      LH_LET(same, run::nothing_left(one.folder, one.job->job));
      if (!same) one.summary.reset();
    }
    one.code = one.summary ? run::exit_code(*one.summary) : kDone;
  }
  return Ok{};
}

Status write_job_files(const std::vector<ComparedRun>& runs) {
  for (const ComparedRun& one : runs) {
    std::error_code code;
    std::filesystem::create_directories(std::filesystem::path(one.job_file).parent_path(), code);
    LH_TRY(run::write_atomically(one.job_file, run::to_toml(one.job->job)));
  }
  return Ok{};
}

// Clears runs of one seed from the folders of several seeds, because reports would take such a run
// for all seeds. Error without `force`.
Status clear_single_runs(const std::vector<ComparedRun>& runs, const std::string& base,
                         bool force) {
  for (const ComparedRun& one : runs) {
    const std::string above = std::filesystem::path(one.folder).parent_path().string();
    if (above == base || !has_run(above)) continue;
    if (!force)
      return invalid(fmt::format(
          "{}: holds a run of one seed; --force replaces it, --out DIR writes elsewhere", above));
    LH_TRY(run::RunFolder::clear(above));
  }
  return Ok{};
}

// Returns the end of a run at --hours exactly, because the next score may be much later.
std::optional<double> until_s(const CompareArgs& args) {
  if (!args.axes.hours) return std::nullopt;
  return 3600 * *args.axes.hours;
}

// Runs all unfinished runs. Afterwards `runs` holds all summaries.
Status run_rest(const CompareArgs& args, const std::string& base, std::vector<ComparedRun>& runs) {
  const run::SimulateOptions options = args.common.one_of_several("");
  for (const ComparedRun& one : runs)
    LH_TRY(run::RunFolder::check(one.folder, one.job->job, options.existing));
  LH_TRY(clear_single_runs(runs, base, args.common.force));
  LH_TRY(write_job_files(runs));
  if (args.common.resume) LH_TRY(look(runs));
  std::vector<run::PoolRun> todo;
  std::vector<ComparedRun*> of;
  for (ComparedRun& one : runs) {
    if (one.summary && is_over(*one.summary)) continue;
    const bool resume = args.common.resume && has_run(one.folder);
    todo.push_back(
        {one.job->path, one.job_file, one.folder, resume, args.common.force, until_s(args)});
    of.push_back(&one);
  }
  run::preload_torch_library(runs.front().job->job);
  std::set<std::string> traces;
  const auto ends = run_all_or_anew(todo,
                                    {.simulate = run_words_in_copies(),
                                     .at_once = args.at_once,
                                     .threads = args.common.threads,
                                     .progress = options.progress,
                                     .done_before = runs.size() - todo.size(),
                                     .stop = {}},
                                    traces);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    ComparedRun& one = *of[i];
    one.summary.reset();
    if (!ends[i].started && ends[i].message.empty()) continue;  // after Ctrl-C
    auto summary = run::read_summary(one.folder);
    if (summary && ends[i].exit.signal == 0) one.summary = *summary;
    one.code = ends[i].exit.signal != 0 ? kInternal : ends[i].exit.code;
    if (one.code > 1 && one.code != kInterrupted)
      one.failure = !ends[i].message.empty()                       ? ends[i].message
                    : one.summary && !one.summary->failure.empty() ? one.summary->failure
                                                                   : run::to_string(ends[i].exit);
  }
  return Ok{};
}

// --tune: the rates that a combination tried, on a seed that is not reported, and the best rate.
struct TunedRate {
  std::string label, key;  // label of the combination; "rate", "outer.rate"
  double rate = 0;
  std::vector<double> tried;
};

constexpr double kRateFactors[] = {1.0 / 9, 1.0 / 3, 1, 3, 9};
constexpr double kOuterFactors[] = {0.5, 1, 2};

// Search of the best rates, one key of all combinations at a time. Tries every factor of the grid
// and keeps the best.
class Tuner {
 public:
  Tuner(const CompareArgs& args, std::string base)
      : args_(args), base_(std::move(base) + "/tune") {}

  // Replaces the jobs by jobs with the best rates, on seeds after the one that chose the rates.
  // After Ctrl-C, `comparison` must not be used.
  Result<std::vector<TunedRate>> tune(Comparison& comparison) {
    for (const std::string& sweep : args_.axes.sweeps)
      if (sweep.starts_with("optimizer.rate=") || sweep.starts_with("outer.rate="))
        return invalid(fmt::format(
            "--sweep {}: --tune chooses this key itself; leave out one of the two", sweep));
    std::map<std::string, ComparedJob> best;
    for (const ComparedJob& one : comparison.jobs) {
      LH_LET(says, says_rate(one.job));
      if (!says)
        return invalid(
            "--tune: the job's model is a loop of one's own, which sets its rate itself: use "
            "site.rate there (docs/python.md), or try several");
      best.emplace(one.label, one);
    }
    LH_TRY(pass(best, "rate", kRateFactors, scale_rate));
    if (!run::interrupted()) LH_TRY(pass(best, "outer.rate", kOuterFactors, scale_outer_rate));
    for (ComparedJob& one : comparison.jobs) {
      const std::uint64_t seed = one.job.job.seed + 1;
      const ComparedJob& tuned = best.at(one.label);
      const bool several = one.path.ends_with(fmt::format("/seed-{}", one.job.job.seed));
      one = tuned;
      one.job.job.seed = seed;
      one.path = run_path(one.label);
      if (several) one.path += fmt::format("/seed-{}", seed);
    }
    return std::move(found_);
  }

 private:
  using Scale = std::optional<double> (*)(run::Job&, double factor);

  Status pass(std::map<std::string, ComparedJob>& best, const std::string& key,
              std::span<const double> factors, Scale scale) {
    std::vector<std::string> of;  // combination of each job
    std::vector<ComparedJob> jobs;
    std::map<std::string, TunedRate> rates;
    for (const auto& [label, one] : best)
      for (const double factor : factors) {
        ComparedJob job = one;
        const auto rate = scale(job.job, factor);
        if (!rate) break;
        job.label += fmt::format("-{}={:.3g}", key, *rate);
        job.path = run_path(job.label);
        rates[label].tried.push_back(*rate);
        of.push_back(label);
        jobs.push_back(std::move(job));
      }
    if (jobs.empty()) return Ok{};
    std::vector<ComparedRun> runs;
    for (const ComparedJob& job : jobs)
      runs.push_back({.job = &job,
                      .folder = base_ + "/" + job.path,
                      .job_file = base_ + "/jobs/" + job.path + ".toml"});
    LH_TRY(run_rest(args_, base_, runs));
    std::map<std::string, std::vector<std::pair<std::string, Summary>>> ended;
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i].summary && runs[i].failure.empty())
        ended[of[i]].emplace_back(jobs[i].label, *runs[i].summary);
    for (const auto& [label, summaries] : ended) {
      const std::string first = best_of(ranked(summaries, {}));
      const auto at = std::ranges::find(jobs, first, &ComparedJob::label);
      TunedRate& rate = rates.at(label);
      rate.label = label;
      rate.key = key;
      rate.rate = *number_of(at->job, key == "rate" ? "optimizer" : "outer", "rate");
      found_.push_back(rate);
      best.at(label) = *at;
    }
    return Ok{};
  }

  // Returns the label of the best rate. If several reach the target at the same score,
  // the best score at the end decides.
  static std::string best_of(const std::vector<RankedGroup>& groups) {
    const RankedGroup* best = &groups.front();
    for (const RankedGroup& one : groups) {
      const bool same = one.target && best->target && one.target->median == best->target->median;
      if (!same || !one.score || !best->score) continue;
      const double gain = one.score->median - best->score->median;
      if (one.lower_is_better ? gain < 0 : gain > 0) best = &one;
    }
    return best->label;
  }

  const CompareArgs& args_;
  const std::string base_;
  std::vector<TunedRate> found_;
};

struct Outcome {
  std::vector<RankedGroup> groups;
  std::vector<const ComparedRun*> interrupted, missing, failed;
  int code = kDone;
};

Outcome outcome_of(const std::vector<ComparedRun>& runs, bool all_kinds) {
  Outcome outcome;
  std::vector<std::pair<std::string, Summary>> finished;
  for (const ComparedRun& one : runs) {
    // Some of "all" kinds do not suit the model. Their failures are listed, but do not set the exit
    // code.
    if (one.failure.empty() || !all_kinds) outcome.code = std::max(outcome.code, one.code);
    if (!one.failure.empty())
      outcome.failed.push_back(&one);
    else if (!one.summary)
      outcome.missing.push_back(&one);
    else if (is_interrupted(*one.summary))
      outcome.interrupted.push_back(&one);
    else
      finished.emplace_back(one.job->label, *one.summary);
  }
  if (finished.empty())
    for (const ComparedRun* one : outcome.failed) outcome.code = std::max(outcome.code, one->code);
  outcome.groups = ranked(finished, runs.front().job->job.cost);
  if (run::interrupted()) outcome.code = kInterrupted;
  if (!outcome.missing.empty()) outcome.code = std::max(outcome.code, 1);
  return outcome;
}

nlohmann::ordered_json result_json(const Comparison& comparison,
                                   const std::vector<ComparedRun>& runs, const Outcome& outcome) {
  nlohmann::ordered_json json = {{"name", comparison.name},
                                 {"winner", nullptr},
                                 {"verdict", verdict(outcome.groups)},
                                 {"ranking", nlohmann::json::array()},
                                 {"runs", nlohmann::json::array()},
                                 {"skipped", nlohmann::json::array()},
                                 {"failed", nlohmann::json::array()},
                                 {"missing", nlohmann::json::array()}};
  if (has_winner(outcome.groups)) json["winner"] = outcome.groups.front().label;
  if (const auto& currency = runs.front().job->job.cost.currency) json["currency"] = *currency;
  for (const RankedGroup& group : outcome.groups) json["ranking"].push_back(to_json(group));
  for (const ComparedRun& one : runs) {
    if (!one.summary) continue;
    nlohmann::ordered_json run = to_json(*one.summary);
    run["label"] = one.job->label;
    run["folder"] = one.folder;
    json["runs"].push_back(std::move(run));
  }
  for (const SkippedJob& skipped : comparison.skipped)
    json["skipped"].push_back({{"label", skipped.label}, {"why", skipped.why}});
  for (const ComparedRun* one : outcome.failed)
    json["failed"].push_back({{"label", one->job->label}, {"why", one->failure}});
  for (const ComparedRun* one : outcome.missing) json["missing"].push_back(one->folder);
  return json;
}

// Returns a reason without its quoted names, so that similar reasons are printed once.
std::string without_names(const std::string& why) {
  std::string text;
  bool quoted = false;
  for (const char c : why) {
    if (c == '"') quoted = !quoted;
    if (!quoted) text += c;
  }
  return text;
}

// Prints combinations with similar reasons on one line, with the first one's reason.
void print_skipped(const Comparison& comparison) {
  struct Line {
    std::string key, labels, why;
  };
  std::vector<Line> lines;
  for (const SkippedJob& one : comparison.skipped) {
    const std::string key = without_names(one.why);
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return line.key == key; });
    if (same == lines.end())
      lines.push_back({key, one.label, one.why});
    else
      same->labels += ", " + one.label;
  }
  if (!lines.empty()) fmt::print("\nLeft out, {} combinations:\n", comparison.skipped.size());
  for (const Line& line : lines) fmt::print("  {}: {}\n", line.labels, line.why);
  if (!comparison.dropped.empty()) fmt::print("\nKeys of the job file that kinds lack:\n");
  for (const std::string& dropped : comparison.dropped) fmt::print("  {}\n", dropped);
}

void print_outcome(const Comparison& comparison, const std::vector<ComparedRun>& runs,
                   const Outcome& outcome, const std::string& base) {
  std::string table = ranking_text(comparison.name, outcome.groups, runs.front().job->job.cost);
  fmt::print("{}", table.empty() ? comparison.name + "\n" : table);
  for (const ComparedRun* one : outcome.interrupted)
    fmt::print("{}  interrupted after {} rounds\n", one->job->path, one->summary->rounds);
  for (const ComparedRun* one : outcome.failed)
    fmt::print("{}  failed: {}\n", one->job->path, one->failure);
  if (!outcome.missing.empty())
    fmt::print("{} of {} {} missing, the first is {}\n", outcome.missing.size(),
               count_text(runs.size(), "run"), outcome.missing.size() == 1 ? "is" : "are",
               outcome.missing.front()->job->path);
  if (const std::string text = verdict(outcome.groups); !text.empty()) fmt::print("\n{}\n", text);
  print_skipped(comparison);
  if (!comparison.equal_budget && std::any_of(runs.begin(), runs.end(), [](const ComparedRun& one) {
        return one.summary && one.summary->stop_reason == run::StopReason::max_rounds;
      }))
    fmt::print(
        "\nmax_rounds ended runs, and rounds differ in samples: for one budget give --epochs or "
        "--hours.\n");
  const bool seeds = std::any_of(outcome.groups.begin(), outcome.groups.end(),
                                 [](const RankedGroup& group) { return group.runs.size() > 1; });
  fmt::print(
      "\nTimes are virtual but for the last column; computing is the share of it that sites "
      "spend on gradients.\n{}Runs are in {}/\n",
      seeds ? "Figures are medians over the seeds, with the range in brackets.\n" : "", base);
}

void print_rates(const std::vector<TunedRate>& rates) {
  if (!rates.empty()) fmt::print("\nRates, chosen on a seed that is not among these:\n");
  for (const TunedRate& one : rates) {
    const bool edge = one.rate == one.tried.front() || one.rate == one.tried.back();
    fmt::print("  {}: {} {:.3g} of {:.3g} to {:.3g}{}\n", one.label, one.key, one.rate,
               one.tried.front(), one.tried.back(),
               edge ? ", the edge of the grid: a rate beyond may be better" : "");
  }
}

// Prints the tasks. Omits those of finished runs, so that the same command continues the
// comparison.
Result<int> emit(const CompareArgs& args, const Comparison& comparison, const std::string& base,
                 std::vector<ComparedRun>& runs) {
  LH_TRY(clear_single_runs(runs, base, args.common.force));
  LH_TRY(write_job_files(runs));
  LH_TRY(look(runs));
  LH_LET(program, run::own_program());
  std::vector<EmittedTask> tasks;
  for (const ComparedRun& one : runs) {
    if (one.summary && is_over(*one.summary)) continue;
    tasks.push_back({one.job->path, {"simulate", one.job_file, "--out", one.folder, "--quiet"}});
    if (const auto until = until_s(args))
      for (std::string word : {std::string("--until"), fmt::format("{}", *until)})
        tasks.back().command.push_back(std::move(word));
    if (has_run(one.folder)) tasks.back().command.push_back("--resume");
  }
  for (EmittedTask& task : tasks)  // the words of "python3 train.py" after the first
    task.command.insert(task.command.begin(), program.begin() + 1, program.end());
  fmt::print("{}", emitted_tasks(args.emit, comparison.name, program.front(), tasks));
  fmt::print(stderr, "{} tasks; when they have ended: the same command with --gather instead\n",
             tasks.size());
  return kDone;
}

Result<int> compare(const CompareArgs& args) {
  LH_LET(comparison, compared_jobs(args.common, args.axes));
  const std::string base =
      args.common.out.empty() ? "runs/" + comparison.name + "-compare" : args.common.out;
  if (!args.gather) LH_TRY(run::check_writable(base, "name another folder with --out DIR"));
  std::vector<TunedRate> rates;
  if (args.tune) {
    LH_LET(tuned, Tuner(args, base).tune(comparison));
    rates = std::move(tuned);
    if (run::interrupted()) {
      print_resume_hint();
      return kInterrupted;
    }
  }
  std::vector<ComparedRun> runs;
  for (const ComparedJob& job : comparison.jobs)
    runs.push_back({.job = &job,
                    .folder = base + "/" + job.path,
                    .job_file = base + "/jobs/" + job.path + ".toml"});
  if (!args.emit.empty()) return emit(args, comparison, base, runs);
  const Status done = args.gather ? look(runs) : run_rest(args, base, runs);
  if (!done) return done.error();
  Outcome outcome = outcome_of(runs, args.axes.any_all());
  for (const ComparedRun& one : runs)
    if (args.common.require_target && one.summary)
      outcome.code = std::max(outcome.code, run::exit_code(*one.summary, true));
  nlohmann::ordered_json json = result_json(comparison, runs, outcome);
  for (const TunedRate& one : rates)
    json["tuned"].push_back(
        {{"label", one.label}, {"key", one.key}, {"rate", one.rate}, {"tried", one.tried}});
  if (const Status written = run::write_atomically(base + "/compare.json", json_text(json) + "\n");
      !written && !args.gather)
    return written.error();
  if (args.common.json)
    fmt::print("{}\n", json_text(json));
  else
    print_outcome(comparison, runs, outcome, base);
  if (!args.common.json) print_rates(rates);
  for (const ComparedRun* one : outcome.failed)
    fmt::print(stderr, "longhaul: {}: {}\n", one->job->path, one->failure);
  if (outcome.code == kInterrupted) print_resume_hint();
  return outcome.code;
}

void add_axes(CLI::App& sub, CompareAxes& axes) {
  auto kinds = [&](const char* name, std::vector<std::string>& into, const char* doc) {
    return option(sub, name, into, doc, "A,B|all")->delimiter(',')->allow_extra_args(false);
  };
  kinds("--sync", axes.syncs, "sync kinds, separated by commas, or all")->required();
  kinds("--overlay", axes.overlays, "overlay kinds (default: the job's)");
  kinds("--transfer", axes.transfers, "transfer kinds (default: the job's)");
  kinds("--codec", axes.codecs, "codec kinds (default: the job's)");
  option(sub, "--sweep", axes.sweeps, "values of one key: --sweep sync.steps=5,10,20",
         "TABLE.KEY=V,V")
      ->allow_extra_args(false);
  option(sub, "--seeds", axes.seeds,
         "seeds of each; prints medians, ranges and ties (default: 1, with --tune 3)", "N",
         CLI::Range(std::uint64_t{1}, std::uint64_t{1000}));
  auto* hours = option(sub, "--hours", axes.hours, "virtual time of each, in hours", "H",
                       CLI::PositiveNumber);
  option(sub, "--epochs", axes.epochs, "samples of each, in training sets", "E",
         CLI::PositiveNumber)
      ->excludes(hours);
}

}  // namespace

void add_compare(CLI::App& app, int& code) {
  auto args = std::make_shared<CompareArgs>();
  CLI::App* sub = app.add_subcommand(
      "compare",
      "runs a job with several strategies, overlays, codecs ... and ranks them in one table");
  args->common.add_to(*sub, "runs/NAME-compare",
                      "keeps finished runs, continues interrupted ones, starts the others");
  add_axes(*sub, args->axes);
  option(*sub, "--jobs", args->at_once, "runs at a time, each a process (default: 1)", "N",
         CLI::Range(1u, 1024u));
  auto* emit =
      option(*sub, "--emit", args->emit, "starts nothing; prints a task for each unfinished run",
             "KIND", CLI::IsMember({"parallel", "slurm", "k8s"}));
  sub->add_flag("--gather", args->gather, "starts nothing; prints the table of the existing runs")
      ->excludes(emit);
  sub->add_flag("--tune", args->tune,
                "first tries 1/9, 1/3, 1, 3 and 9 times the learning rate of each, then half and "
                "twice the outer rate, on the job's seed; runs the best on other seeds")
      ->excludes(emit)
      ->excludes("--gather");
  sub->footer(
      "Examples:\n  longhaul compare examples/mnist-4-sites.toml --sync bsp,fedavg,diloco\n"
      "  longhaul compare examples/bsp.toml --sync all --overlay direct,ring --epochs 5 --jobs 2\n"
      "Exit codes: the highest of the runs, 1 if a run is missing; with --sync all, failed runs do "
      "not "
      "count");
  sub->callback([args, sub, &code] {
    if (args->tune && sub->count("--seeds") == 0) args->axes.seeds = 3;
    code = code_of(compare(*args));
  });
}

}  // namespace longhaul::cli
