// longhaul plan: finds the combination that reaches the job's target first on its network.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/advise_candidates.h"
#include "longhaul/cli/advise_kept.h"
#include "longhaul/cli/advise_text.h"
#include "longhaul/cli/cli.h"
#include "longhaul/cli/compare_jobs.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/rates.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/report/run_reader.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/folder_lock.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/run_pool.h"
#include "longhaul/run/torch_library.h"

namespace longhaul::cli {
namespace {

using AdviseClock = std::chrono::steady_clock;
// Shares of the budget: limit of the first stage; latest start of a stage, and end of the stages if
// the budget is in samples; their end if it is a time; latest start of a change; end. The finals
// get the rest. Until a trial reaches the target, there are no finals: the stages get their share.
constexpr double kFirstShare = 0.15, kSearchShare = 0.6, kFinalShare = 0.75, kChangeShare = 0.9,
                 kEnd = 0.97;
constexpr double kStageShare = 0.7;  // part of the rest for a stage before the target, at most
constexpr double kStartShare = 0.2;  // part of a time for the first trials' fixed costs, at most
constexpr std::size_t kFinalists = 5, kFinalSeeds = 3;  // seeds that were not used in the search
constexpr std::size_t kGroup = 16;                      // trials of a stage that begin together
constexpr std::size_t kChanged = 3;                     // finalists tried under changed conditions
constexpr double kFinalLimit = 2, kChangeLimit = 3;     // multiples of the time to the target
// Most of the budget that the first stage takes if kFirstShare is less than a round.
constexpr double kMostFirstShare = 0.4;
constexpr double kFinalCost = 1.25;  // expected samples of a final, in those of its trial
constexpr std::size_t kProbes = 3;   // strategies whose first trials may fail
constexpr const char* kKeptJob = "plan-job.toml";  // the job that the folder's trials are of
// Minimum number of scores of a trial in its first stage, by its predicted speed. Without a score,
// the progress of a trial that is cut would not show.
constexpr double kScores = 6;
constexpr double kFinalScores = 16;  // scores of a finalist until the target

struct AdviseArgs {
  RunOptions common;
  double budget_minutes = 10;
  std::optional<double> budget_epochs, budget_samples;  // instead of budget_minutes
  unsigned at_once = 1;
  std::string write;
};

class Adviser {
 public:
  explicit Adviser(const AdviseArgs& args) : args_(args) {}

  Result<Advice> advise() {
    LH_TRY(prepare());
    const run::InterruptGuard guard;  // also active between two stages
    LH_TRY(predict());
    std::vector<Candidate> first = candidates_->first();
    LH_TRY(check_same_trials(first));
    LH_TRY(run::write_atomically(folder_ + "/" + kKeptJob, kept_job_));
    advice_.fastest = first;
    const std::optional<Trial> probe = run_probe(first);
    const double limit_s = probe ? begin_search(first, *probe) : 0;
    if (failed_) return *failed_;
    const SearchHooks hooks = {
        .run = [this](const auto& candidates, double limit) { return trials(candidates, limit); },
        .neighbours = [this](const Candidate& near) { return neighbours(near); },
        .is_over = [this] { return search_ended_ || is_over(search_share()); }};
    advice_.search = successive_halving(std::move(first), limit_s, hooks,
                                        probe && probe->to_target ? probe : std::optional<Trial>());
    if (failed_) return *failed_;
    LH_TRY(check_that_one_ended());
    if (advice_.found()) confirm();
    if (!advice_.finalists.empty() && advice_.found()) try_changes();
    if (failed_) return *failed_;
    advice_.spent_s = spent_s();
    advice_.interrupted = run::interrupted();
    advice_.runs = runs_;
    advice_.predicted = candidates_->predicted();
    advice_.not_predicted = candidates_->not_predicted();
    advice_.illegal = candidates_->illegal();
    advice_.left_out = candidates_->left_out();
    advice_.refused = candidates_->refused();
    advice_.tunes_rates = candidates_->tunes_rates();
    advice_.samples = samples_;
    if (training_samples_ > 0) advice_.epochs = double(samples_) / double(training_samples_);
    return std::move(advice_);
  }

  // Returns the job of the best candidate with the user's [stop]. If one of its runs that reached
  // the target took more than max_rounds, max_rounds becomes twice the rounds of the longest one.
  run::Job best_job(Advice& advice) const {
    const Candidate& best = advice.best();
    run::Job job = trial_job(best);
    job.stop.max_rounds = candidates_->max_rounds(best);
    std::uint64_t rounds = advice.best_trial().summary.rounds;
    for (const Finalist& one : advice.finalists)
      for (const FinalRun& run : one.runs)
        if (one.candidate == best && run.target) rounds = std::max(rounds, run.rounds);
    if (job.stop.max_rounds < rounds) {
      advice.rounds_before = job.stop.max_rounds;
      advice.rounds_written = job.stop.max_rounds = 2 * rounds;
    }
    return job;
  }

 private:
  // Returns the candidate's job, scored as often as its first trial required.
  run::Job trial_job(const Candidate& candidate) const {
    run::Job job = candidates_->job(candidate);
    const auto most = most_between_scores_.find(candidate.label);
    if (most != most_between_scores_.end()) score_after(most->second, job);
    return job;
  }
  // Makes the job score after at most `samples` samples.
  static void score_after(std::uint64_t samples, run::Job& job) {
    auto& rounds = job.report.every_rounds;
    if (rounds && *rounds > 1 && *rounds * run::samples_per_round(job) > samples) rounds.reset();
    job.report.every_samples = std::min(job.report.every_samples, samples);
  }
  double budget_s() const { return 60 * args_.budget_minutes; }
  // Returns what is left of `share` of the budget, in samples or seconds.
  double left(double share) const {
    const auto samples = sample_budget();
    return samples ? share * *samples - double(samples_) : share * budget_s() - spent_s();
  }
  // Returns true if more than `share` of the budget is used up, or after Ctrl-C.
  bool is_over(double share) const { return run::interrupted() || left(share) < 0; }
  double search_share() const { return reached_ ? kSearchShare : kEnd; }
  // Returns the share of the budget at whose end a stage is cut. A stage before the target leaves
  // a part of the rest for the finals, because it may reach it.
  double stage_end() const {
    if (reached_) return sample_budget() ? kSearchShare : kFinalShare;
    const double spent = 1 - left(1) / sample_budget().value_or(budget_s());
    return spent + kStageShare * std::max(0.0, kEnd - spent);
  }
  // Notes for the user what does not run for lack of budget.
  void leave_out(const std::string& what) {
    if (!run::interrupted()) advice_.no_budget.push_back(what);
  }
  // Returns the budget in samples; absent if the budget is a time.
  std::optional<double> sample_budget() const {
    if (args_.budget_samples) return args_.budget_samples;
    if (!args_.budget_epochs) return std::nullopt;
    return *args_.budget_epochs * double(training_samples_);
  }
  double spent_s() const {
    return std::chrono::duration<double>(AdviseClock::now() - begin_).count();
  }
  // Returns the real time of a sample in the trials so far, in s.
  double per_sample_s() const { return samples_ > 0 ? real_s_ / double(samples_) : 1e-4; }
  // Returns what these samples cost in the unit of left().
  double cost_of(double samples) const {
    return sample_budget() ? samples : samples * per_sample_s() / double(args_.at_once);
  }
  // Returns the samples of a candidate in this virtual time: as predicted, or as in the longest
  // trial of its family if that was faster.
  double samples_in(const Candidate& candidate, double seconds) const {
    return seconds * std::max(batch_scale_ * candidate.samples_per_s, speeds_.of(candidate.family));
  }
  void note(const std::string& text) const {
    if (!args_.common.quiet) fmt::print(stderr, "{}\n", text);
  }

  Status prepare() {
    LH_LET(job, args_.common.load());
    if (job.focus) return invalid(args_.common.job + ": has [focus], which trains nothing");
    if (!job.stop.target_accuracy && !job.stop.target_bits_per_byte)
      return invalid(args_.common.job +
                     ": [stop]: plan needs a target to reach: target_accuracy, or of text "
                     "target_bits_per_byte; --set stop.target_accuracy=0.9");
    if (job.kind("model") == "phantom")
      return invalid(args_.common.job +
                     ": [model] kind = \"phantom\" has no numbers that could reach a target");
    advice_.name = job.job.name;
    advice_.bits = job.stop.target_bits_per_byte.has_value();
    advice_.target = target_text(job.stop);
    if (args_.budget_epochs) advice_.budget = "--budget-epochs";
    if (args_.budget_samples) advice_.budget = "--budget-samples";
    folder_ = args_.common.out.empty() ? "runs/" + job.job.name + "-plan" : args_.common.out;
    advice_.folder = folder_;
    advice_.currency = job.cost.currency.value_or("");
    if (holds_files() && !args_.common.force && !args_.common.resume)
      return invalid(folder_ +
                     ": exists already; --resume goes on with its trials, --force replaces it, "
                     "--out DIR writes elsewhere");
    LH_TRY(check_arguments());
    LH_TRY(lock());
    LH_TRY(check_same_job(job));
    kept_.open(folder_, args_.common.resume);
    LH_TRY(count_samples(job));
    LH_LET(tunes_rates, says_rate(job));
    candidates_.emplace(args_.common, job, tunes_rates);
    run::preload_torch_library(job);
    kept_job_ = run::to_toml(job);
    return Ok{};
  }

  // Counts the training samples. Error: they are unknown and the budget is in epochs, or the job
  // has no score.
  Status count_samples(const run::Job& job) {
    if (const run::OwnLearners* own = embedding().learners; own && job.kind("model") == "own") {
      if (!own->score)
        return invalid(
            "plan needs scores, and this program gives none: longhaul.main(train, score)");
      training_samples_ = own->training_samples;
    } else {
      LH_LET(data, run::partition_table(job));
      for (const auto& labels : data.counts)
        training_samples_ += std::accumulate(labels.begin(), labels.end(), std::uint64_t{0});
    }
    if (args_.budget_epochs && training_samples_ == 0)
      return invalid(
          "--budget-epochs: the job does not say how many samples its loop has; use "
          "--budget-samples");
    return Ok{};
  }

  // With --resume, refuses a job that differs from the one whose trials the folder holds. A changed
  // max_rounds is allowed, because no trial depends on it.
  Status check_same_job(const run::Job& job) const {
    const std::string file = folder_ + "/" + kKeptJob;
    std::error_code code;
    if (!args_.common.resume || !std::filesystem::exists(file, code)) return Ok{};
    LH_LET(before, run::load_job(file));
    before.stop.max_rounds = job.stop.max_rounds;
    if (const auto changed = run::difference(before, job)) return other_job(*changed);
    return Ok{};
  }

  // The same for the tables that the job file has for single strategies.
  Status check_same_trials(const std::vector<Candidate>& candidates) const {
    for (const Candidate& one : candidates) {
      const std::string folder = folder_ + "/trials/" + one.label;
      if (!args_.common.resume || !has_run(folder)) continue;
      const auto before = run::job_of_run(folder);
      if (!before) continue;  // damaged: it starts again
      if (const auto changed = run::difference(*before, candidates_->job(one), /*resumes=*/true))
        return other_job(fmt::format("with {}, {}", one.sync, *changed));
    }
    return Ok{};
  }

  Error other_job(const std::string& changed) const {
    return invalid(fmt::format(
        "{}: --resume: the job is not the one that was planned there: {}; undo that, plan "
        "elsewhere with --out DIR, or start again with --force",
        folder_, changed));
  }

  // Returns true if an earlier plan has left more than its lock.
  bool holds_files() const {
    std::error_code code;
    const std::filesystem::directory_iterator files(folder_, code);
    return std::ranges::any_of(
        files, [](const auto& entry) { return entry.path().filename() != run::FolderLock::kFile; });
  }

  Status check_arguments() const {
    namespace fs = std::filesystem;
    for (const auto& [option, value] :
         {std::pair{"--budget-minutes", args_.budget_minutes},
          std::pair{"--budget-epochs", args_.budget_epochs.value_or(1)},
          std::pair{"--budget-samples", args_.budget_samples.value_or(1)}})
      if (!(value > 0)) return invalid(fmt::format("{}: expected a number above 0", option));
    if (args_.write.empty()) return Ok{};
    std::error_code code;
    if (fs::equivalent(args_.write, args_.common.job, code))
      return invalid("--write " + args_.write + ": is the job itself; name another file");
    const fs::path parent = fs::absolute(args_.write, code).parent_path();
    if (!fs::is_directory(parent, code))
      return invalid(fmt::format("--write {}: {} is no folder; make it, or name another file",
                                 args_.write, parent.string()));
    return run::check_writable(parent.string(), "name a file elsewhere with --write");
  }

  // Locks the folder as long as this object lives.
  Status lock() {
    LH_TRY(run::check_writable(folder_, "name another folder with --out DIR"));
    lock_.emplace(folder_);
    if (!lock_->take())
      return invalid(fmt::format(
          "{}: another plan runs there ({}); wait for its end, or name another folder with --out "
          "DIR",
          folder_, lock_->owner()));
    lock_->sign();
    return Ok{};
  }

  // Predicts without numbers, in this process.
  Status predict() {
    note("predicting strategies and overlays without numbers");
    return candidates_->predict_all([this] {
      return run::interrupted() || (!sample_budget() && spent_s() > 0.2 * budget_s());
    });
  }

  std::vector<Candidate> neighbours(const Candidate& near) {
    if (search_ended_) return {};
    candidates_->stop_when([this] { return is_over(search_share()); });
    return candidates_->neighbours(near);
  }

  // Drops candidates for whose fixed costs the budget has no time. Returns the virtual time for
  // which kFirstShare of the budget is enough for the others, or kMostFirstShare if a round of half
  // of them needs it. Sets failed_ if that is not enough for a round of a quarter of them.
  double begin_search(std::vector<Candidate>& candidates, const Trial& probe) {
    note_batches(probe);
    keep_startable(candidates, probe);
    double rate = 0;
    std::vector<double> rounds_s;
    for (const Candidate& one : candidates) {
      rate += batch_scale_ * one.samples_per_s;
      rounds_s.push_back(one.round_s);
    }
    std::ranges::sort(rounds_s);
    const double samples =
        sample_budget().value_or(budget_s() * double(args_.at_once) / per_sample_s());
    const double limit_s = kFirstShare * samples / rate, most_s = kMostFirstShare * samples / rate;
    const double quarter_s = rounds_s[rounds_s.size() / 4];
    const double rounds_limit_s =
        std::max(limit_s, std::min(most_s, rounds_s[rounds_s.size() / 2]));
    if (probe.to_target) return std::min(rounds_limit_s, kRival * *probe.to_target);
    if (quarter_s > most_s) failed_ = too_small(quarter_s, quarter_s / limit_s, candidates.size());
    return rounds_limit_s;
  }

  void keep_startable(std::vector<Candidate>& candidates, const Trial& probe) {
    const double fixed_s = std::max(probe.start_s, steps_s_);
    if (sample_budget() || !(fixed_s > 0)) return;
    const auto most = std::size_t(kStartShare * budget_s() * double(args_.at_once) / fixed_s) + 1;
    if (candidates.size() <= most) return;
    leave_out(fmt::format("{} of {} first trials, each of which takes {} beside its training",
                          candidates.size() - most, candidates.size(),
                          run::duration_text(fixed_s)));
    keep_first(candidates, probe.candidate, most);
  }

  // `factor`: a sufficient budget, as a multiple of this one.
  Error too_small(double round_s, double factor, std::size_t trials) const {
    std::string enough = fmt::format("--budget-minutes {:.1f}", factor * args_.budget_minutes);
    if (args_.budget_epochs)
      enough = fmt::format("--budget-epochs {:.0f}", std::ceil(factor * *args_.budget_epochs));
    if (args_.budget_samples)
      enough = fmt::format("--budget-samples {:.0f}", std::ceil(factor * *args_.budget_samples));
    return {Error::Kind::timed_out,
            fmt::format("plan: the budget is too small: three quarters of the {} first trials take "
                        "{} or more for one round; {} would be enough",
                        trials, run::duration_text(round_s), enough)};
  }

  // Runs a candidate of medium speed for 20 rounds at most; if it fails, those of other strategies.
  // Sets failed_ if the first kProbes strategies fail.
  std::optional<Trial> run_probe(const std::vector<Candidate>& candidates) {
    std::set<std::string> tried;
    std::string why;
    for (std::size_t i = 0; i < candidates.size() && tried.size() < kProbes; ++i) {
      const Candidate& one = candidates[(candidates.size() / 2 + i) % candidates.size()];
      if (!tried.insert(one.sync).second) continue;
      std::vector<Trial> trial;
      if (is_own_loop(one)) trial = run_steps(one);
      if (failed_) return std::nullopt;
      if (trial.empty() || !trial[0].failed()) {
        double samples = 20 * double(run::samples_per_round(candidates_->job(one)));
        if (const auto most = sample_budget())
          samples = std::min(samples, kFirstShare * *most / batch_scale_);
        trial = run_first("probe/", one, samples / one.samples_per_s);
        if (failed_) return std::nullopt;
        if (!trial.empty()) reached_ = trial[0].to_target.has_value();
      }
      if (trial.empty()) return std::nullopt;
      if (!trial[0].failed()) return trial[0];
      if (why.empty()) why = failure_text(trial[0]);
    }
    failed_ = invalid(why);
    return std::nullopt;
  }

  bool is_own_loop(const Candidate& one) const {
    return candidates_->job(one).kind("data") == "own";
  }

  // Runs two steps of a loop, in a run by itself. Only the loop knows the samples of its batches.
  std::vector<Trial> run_steps(const Candidate& one) {
    double step_ms = 0;
    for (const run::SiteTable& site : candidates_->job(one).sites)
      step_ms = std::max(step_ms, site.step_ms);
    std::vector<Trial> trial = run_first("steps/", one, 2 * step_ms / 1000);
    if (failed_) return {};
    speeds_.forget(one.family);  // the two steps wait for nobody
    note_batches(trial[0]);
    step_samples_ = double(trial[0].summary.samples.computed) / 2;
    steps_s_ = trial[0].start_s + trial[0].summary.real_s;
    return trial;
  }

  // Runs a trial before the stages, in a folder of its own.
  std::vector<Trial> run_first(const std::string& folder, const Candidate& one, double limit_s) {
    run::Job job = candidates_->job(one);
    score_after(std::uint64_t(one.samples_per_s * limit_s / kScores) + 1, job);
    job.stop.max_hours = limit_s / 3600;
    const auto run = pool_run(folder + one.label, job, limit_s);
    if (!run) return {};
    return run_trials({*run}, {one}, limit_s, kSearchShare);
  }

  // Sets batch_scale_ from a run of a loop.
  void note_batches(const Trial& trial) {
    const run::Summary& s = trial.summary;
    if (is_own_loop(trial.candidate) && s.samples.computed > 0)
      batch_scale_ = double(s.samples.computed) / s.time_s / trial.candidate.samples_per_s;
  }

  static std::string failure_text(const Trial& trial) {
    return fmt::format("plan: the trials fail, {} with: {}", trial.candidate.label, trial.why);
  }

  // Returns an Error if every trial failed. If none ended for lack of budget, clears the ranking.
  Status check_that_one_ended() {
    std::vector<Trial>& all = advice_.search.ranking;
    if (std::ranges::any_of(all, [](const Trial& trial) { return trial.limit_s > 0; })) return Ok{};
    const auto failed = std::ranges::find_if(all, &Trial::failed);
    if (failed != all.end() && !run::interrupted()) return invalid(failure_text(*failed));
    all.clear();
    return Ok{};
  }

  // Runs a stage in groups. When a trial has reached the target, the groups after it get no more
  // time than the next stage would give them.
  std::vector<Trial> trials(const std::vector<Candidate>& candidates, double limit_s) {
    ++stage_;
    note(fmt::format("stage {}: {} of {} at most", stage_, count_text(candidates.size(), "run"),
                     run::duration_text(limit_s)));
    const std::size_t size =
        sample_budget() ? kGroup : std::max<std::size_t>(kGroup, 2 * args_.at_once);
    std::vector<Trial> ended;
    double end = stage_end();
    for (std::size_t i = 0; i < candidates.size() && !failed_; i += size) {
      const auto group = std::span(candidates).subspan(i, std::min(size, candidates.size() - i));
      std::vector<Trial> of_group = trials_of_group(group, limit_s, end);
      // Nothing to keep budget for: the first ones may use the rest.
      if (i == 0 && !reached_ && std::ranges::all_of(of_group, &Trial::lacked_budget))
        of_group = trials_of_group(group, limit_s, kEnd);
      for (Trial& trial : of_group) {
        reached_ |= trial.to_target.has_value();
        if (trial.to_target) limit_s = std::min(limit_s, kRival * *trial.to_target);
        ended.push_back(std::move(trial));
      }
      if (reached_) end = std::min(end, stage_end());
    }
    if (failed_) return {};
    if (const auto lacked = std::ranges::count_if(ended, &Trial::lacked_budget); lacked > 0) {
      leave_out(fmt::format("{} of {} trials of stage {}", lacked, ended.size(), stage_));
      search_ended_ = std::size_t(lacked) == ended.size();
    }
    return ended;
  }

  std::vector<Trial> trials_of_group(std::span<const Candidate> candidates, double limit_s,
                                     double end) {
    std::vector<run::PoolRun> runs;
    for (const Candidate& candidate : candidates) {
      const double samples = candidate.samples_per_s * limit_s;
      most_between_scores_.try_emplace(candidate.label, std::uint64_t(samples / kScores) + 1);
      run::Job job = trial_job(candidate);
      job.stop.max_hours = limit_s / 3600;
      auto pool_run = write_job("trials/" + candidate.label, job);
      if (!pool_run) failed_ = pool_run.error();
      if (failed_) return {};
      const bool begun = used_.contains(candidate.label) || goes_on(pool_run->folder, job);
      pool_run->until_s = limit_s;
      pool_run->resume = begun;  // from the cut of the previous stage or of an earlier plan
      pool_run->force = !begun && (pool_run->force || started_.contains(pool_run->folder));
      runs.push_back(*pool_run);
    }
    return run_trials(runs, {candidates.begin(), candidates.end()}, limit_s, end);
  }

  // Returns true if the run continues one that this plan has cut, or with --resume an earlier plan.
  // A trial of another job starts again.
  bool goes_on(const std::string& folder, const run::Job& job) const {
    return (args_.common.resume || started_.contains(folder)) && can_go_on(folder, job);
  }

  // Writes the job's file. `within`: path in the folder; the part after "trials/" is the run's
  // label.
  Result<run::PoolRun> write_job(const std::string& within, const run::Job& job) {
    const std::string path = folder_ + "/" + within, trials = "trials/";
    LH_TRY(run::make_folder(std::filesystem::path(path).parent_path().string()));
    LH_TRY(run::write_atomically(path + ".toml", run::to_toml(job)));
    return run::PoolRun{.label = within.starts_with(trials) ? within.substr(trials.size()) : within,
                        .job = path + ".toml",
                        .folder = path,
                        .force = args_.common.force || args_.common.resume};
  }

  // Runs the trials in order. If the budget is in samples, leaves out those that do not fit into
  // `share` of it even if each takes its limit. If it is a time, its end cuts them.
  std::vector<Trial> run_trials(const std::vector<run::PoolRun>& runs,
                                const std::vector<Candidate>& candidates, double limit_s,
                                double share) {
    std::vector<Trial> trials(runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) trials[i].candidate = candidates[i];
    for (std::size_t begin = 0; begin < runs.size() && !run::interrupted();) {
      std::size_t fit = 0;
      for (double rest = left(share); begin + fit < runs.size(); ++fit) {
        const std::size_t i = begin + fit;
        if (sample_budget()) rest -= most_samples(runs[i].label, candidates[i], limit_s);
        if (sample_budget() && rest < 0) break;
      }
      if (fit == 0) {  // a later one may be smaller
        ++begin;
        continue;
      }
      run_batch(std::span(runs).subspan(begin, fit), std::span(trials).subspan(begin, fit), limit_s,
                share);
      begin += fit;
    }
    return trials;
  }

  // Returns the samples that a run computes until its limit, beyond those that it has computed. At
  // the limit every worker ends the step that it is in.
  double most_samples(const std::string& label, const Candidate& candidate, double limit_s) const {
    const auto used = used_.find(label);
    const double before = used == used_.end() ? 0 : double(used->second.samples);
    return std::max(0.0, samples_in(candidate, limit_s) - before) + step_samples_;
  }

  // Runs the trials whose results an earlier plan has not kept.
  void run_batch(std::span<const run::PoolRun> runs, std::span<Trial> trials, double limit_s,
                 double share) {
    std::vector<std::string> jobs;
    std::vector<run::PoolRun> todo;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto text = run::read_text(runs[i].job);
      jobs.push_back(text ? *text : std::string());
      if (auto kept = kept_.find(runs[i].label, jobs[i])) {
        kept->candidate = trials[i].candidate;
        trials[i] = *std::move(kept);
        ++runs_;
        continue;
      }
      todo.push_back(runs[i]);
      of.push_back(i);
    }
    const double before_s = spent_s();
    const auto ends = run_all_or_anew(todo,
                                      {.simulate = run_words_in_copies(),
                                       .at_once = args_.at_once,
                                       .threads = args_.common.threads,
                                       .progress = run::Progress::detect(args_.common.quiet),
                                       .stop = [&] { return !sample_budget() && left(share) < 0; }},
                                      traces_);
    for (std::size_t k = 0; k < todo.size(); ++k) {
      Trial& trial = trials[of[k]];
      trial = result_of(todo[k], ends[k], limit_s, trial.candidate);
      if (todo.size() == 1) trial.start_s = spent_s() - before_s - trial.summary.real_s;
      runs_ += ends[k].started;
      if (ends[k].started) started_.insert(todo[k].folder);
      if (trial.limit_s > 0) kept_.add(todo[k].label, jobs[of[k]], trial);
    }
    for (std::size_t i = 0; i < runs.size(); ++i) count(runs[i].label, trials[i]);
  }

  // Adds the samples of a trial, which a resumed one counts over all stages.
  void count(const std::string& label, const Trial& trial) {
    if (trial.limit_s == 0) return;  // it did not run to its end
    const run::Summary& s = trial.summary;
    Used& used = used_[label];
    const Used now{std::max(used.samples, s.samples.computed), std::max(used.real_s, s.real_s)};
    samples_ += now.samples - used.samples;
    real_s_ += now.real_s - used.real_s;
    used = now;
    speeds_.note(trial.candidate.family, double(now.samples), s.time_s);
  }

  // Returns the finalists and the number of their seeds for which the budget is enough.
  std::pair<std::vector<Candidate>, std::size_t> choose_finals(double limit_s) {
    std::vector<Trial> in_time = advice_.search.ranking;
    std::erase_if(in_time, [&](const Trial& trial) { return trial.to_target > limit_s; });
    std::vector<Candidate> all = finalists_of(in_time, kFinalists);
    std::vector<double> costs;
    double most = 0;  // one that misses the target takes its limit
    for (const Candidate& one : all) {
      const Trial& trial = *std::ranges::find(advice_.search.ranking, one, &Trial::candidate);
      costs.push_back(cost_of(kFinalCost * double(trial.summary.samples.computed)));
      most = std::max(most, cost_of(samples_in(one, limit_s)));
    }
    const FinalsSize size = finals_that_fit(costs, kFinalSeeds, left(kEnd) - most);
    std::vector<std::string> beyond;
    for (std::size_t i = size.finalists; i < all.size(); ++i) beyond.push_back(all[i].label);
    if (!beyond.empty()) leave_out("other seeds of " + report::names_text(beyond));
    if (size.finalists > 0 && size.seeds < kFinalSeeds)
      leave_out(fmt::format("{} of {} other seeds of the finalists", kFinalSeeds - size.seeds,
                            kFinalSeeds));
    all.resize(size.finalists);
    return {std::move(all), size.seeds};
  }

  // Runs the best candidates on seeds that were not used in the search, until a target one point
  // higher.
  void confirm() {
    if (run::interrupted()) return;
    const double limit_s = kFinalLimit * *advice_.search.ranking.front().to_target;
    const auto [chosen, seed_count] = choose_finals(limit_s);
    if (chosen.empty()) return;
    std::vector<Candidate> of;
    std::vector<run::PoolRun> runs;
    std::vector<std::uint64_t> seeds;
    for (std::size_t i = 1; i <= seed_count; ++i)
      for (const Candidate& candidate : chosen) {
        run::Job job = final_job(candidate, i);
        job.stop.max_hours = limit_s / 3600;
        auto run =
            pool_run(fmt::format("finals/{}/seed-{}", candidate.label, job.job.seed), job, limit_s);
        if (!run) return;
        runs.push_back(*run);
        of.push_back(candidate);
        seeds.push_back(job.job.seed);
      }
    note(fmt::format("{}, {} each", count_text(chosen.size(), "finalist"),
                     count_text(seed_count, "other seed")));
    const std::vector<Trial> trials = run_trials(runs, of, limit_s, kEnd);
    for (const Candidate& candidate : chosen) advice_.finalists.push_back({.candidate = candidate});
    for (std::size_t i = 0; i < trials.size(); ++i) {
      if (trials[i].limit_s > 0)
        advice_.finalists[i % chosen.size()].runs.push_back(
            final_run(runs[i].folder, seeds[i], trials[i]));
      if (trials[i].lacked_budget()) leave_out(fmt::format("seed {} of {}", seeds[i], of[i].label));
    }
    std::erase_if(advice_.finalists, [](const Finalist& one) { return one.runs.empty(); });
    const run::Job& any = candidates_->job(chosen.front());
    rank_finalists(advice_.finalists, any.cost, any.members().size());
    advice_.confidence = confidence(advice_.finalists, any.job.seed);
    advice_.front = front_of(advice_.finalists, [this](const Candidate& one) -> const run::Job& {
      return candidates_->job(one);
    });
  }

  run::Job final_job(const Candidate& candidate, std::size_t seed) const {
    run::Job job = candidates_->job(candidate);
    job.job.seed += seed;
    const auto trial = std::ranges::find(advice_.search.ranking, candidate, &Trial::candidate);
    const double samples = double(trial->summary.samples.computed) / batch_scale_;
    score_after(std::uint64_t(samples / kFinalScores) + 1, job);
    if (auto& accuracy = job.stop.target_accuracy) *accuracy = higher_target(*accuracy);
    if (auto& bits = job.stop.target_bits_per_byte) *bits *= 0.99;
    return job;
  }

  // Returns the result of a finalist's run, with the times of the job's target and of the higher
  // one.
  FinalRun final_run(const std::string& folder, std::uint64_t seed, const Trial& trial) {
    const run::Summary& s = trial.summary;
    FinalRun found{.seed = seed,
                   .diverged = s.stop_reason == run::StopReason::diverged,
                   .wan_bytes = double(s.wan_bytes),
                   .time_s = s.time_s,
                   .rounds = s.rounds};
    const bool bits = s.target_bits_per_byte.has_value();
    const auto at_end = bits ? s.bits_per_byte() : s.final_accuracy;
    found.score = at_end;
    found.lower_is_better = bits;
    report::RunReader reader(folder);
    if (!reader.refresh() || found.diverged) return found;
    std::vector<report::ScorePoint> scores = reader.scores();
    if (at_end && (scores.empty() || scores.back().time_s < s.time_s))
      scores.push_back({.time_s = s.time_s, .score = at_end, .wan_bytes = double(s.wan_bytes)});
    const run::StopTable& stop = candidates_->job(advice_.search.ranking.front().candidate).stop;
    const double target = bits ? -*stop.target_bits_per_byte : *stop.target_accuracy;
    const auto reached = crossing(scores, bits, target);
    if (!reached || reached->time.at > trial.limit_s) return found;
    found.target = reached->time;
    if (reached->wan_bytes) found.wan_bytes = *reached->wan_bytes;
    const double higher = bits ? -*s.target_bits_per_byte : *s.target_accuracy;
    if (const auto later = crossing(scores, bits, higher); later && later->time.at <= trial.limit_s)
      found.higher = later->time;
    return found;
  }

  // Tests whether the first finalist stays first: with the higher target of the finals, and in a
  // few runs on another network or with a slower site.
  void try_changes() {
    advice_.changes.push_back({.what = "the target a point higher", .times = higher_times()});
    std::vector<Candidate> of;
    for (const Finalist& one : advice_.finalists)
      if (of.size() < kChanged && one.standing.target) of.push_back(one.candidate);
    const double usual_s = advice_.finalists.front().standing.target->median;
    const std::uint64_t seed = seed_that_reached();
    const auto change = [&](const std::string& what, const std::string& folder, auto&& apply) {
      std::vector<run::PoolRun> runs;
      Change made{.what = what};
      for (const Candidate& candidate : of) {
        run::Job job = trial_job(candidate);
        job.job.seed = seed;
        apply(job, made.what);
        job.stop.max_hours = kChangeLimit * usual_s / 3600;
        auto run = pool_run(fmt::format("changes/{}/{}", folder, candidate.label), job,
                            kChangeLimit * usual_s);
        if (!run) return;
        runs.push_back(*run);
      }
      if (!is_over(kChangeShare))
        for (const Trial& trial : run_trials(runs, of, kChangeLimit * usual_s, kEnd))
          if (!trial.lacked_budget())
            made.times.emplace_back(trial.candidate.label, trial.to_target);
      if (made.times.size() < of.size()) return leave_out(made.what);
      sort_times(made);
      advice_.changes.push_back(std::move(made));
    };
    note("the first finalists when things change");
    change("half the bandwidth", "half",
           [](run::Job& job, std::string&) { scale_bandwidth(job, 0.5); });
    change("twice the bandwidth", "twice",
           [](run::Job& job, std::string&) { scale_bandwidth(job, 2); });
    change("", "slower", [](run::Job& job, std::string& what) {
      what = fmt::format("{} half as fast", slow_down(job));
    });
  }

  // Returns a seed with which the first finalist reaches the unchanged target.
  std::uint64_t seed_that_reached() const {
    const std::vector<FinalRun>& runs = advice_.finalists.front().runs;
    return std::ranges::find_if(runs, [](const FinalRun& run) { return run.target.has_value(); })
        ->seed;
  }

  std::vector<std::pair<std::string, std::optional<double>>> higher_times() const {
    Change change;
    for (const Finalist& one : advice_.finalists) {
      std::vector<double> times;
      for (const FinalRun& run : one.runs)
        if (run.higher) times.push_back(run.higher->at);
      const bool reached = 2 * times.size() > one.runs.size();
      times.resize(one.runs.size(), std::numeric_limits<double>::infinity());  // they take longer
      change.times.emplace_back(one.candidate.label,
                                reached ? std::optional(report::median(times)) : std::nullopt);
    }
    sort_times(change);
    return change.times;
  }
  static void sort_times(Change& change) {
    std::ranges::stable_sort(change.times, {}, [](const auto& entry) {
      return std::pair(!entry.second, entry.second.value_or(0));
    });
  }

  // Returns nothing if the run's job cannot be written.
  std::optional<run::PoolRun> pool_run(const std::string& path, const run::Job& job,
                                       double until_s) {
    auto run = write_job(path, job);
    if (!run) {
      failed_ = run.error();
      return std::nullopt;
    }
    run->until_s = until_s;
    run->resume = goes_on(run->folder, job);
    run->force &= !run->resume;
    return *run;
  }

  const AdviseArgs& args_;
  const AdviseClock::time_point begin_ = AdviseClock::now();
  std::string folder_, kept_job_;  // kept_job_: text of kKeptJob
  std::optional<run::FolderLock> lock_;
  std::optional<AdviseCandidates> candidates_;
  std::uint64_t training_samples_ = 0, samples_ = 0;  // in the data; computed by all trials
  double real_s_ = 0;                                 // of all trials
  KeptTrials kept_;
  // A trial's samples and real time in all stages.
  struct Used {
    std::uint64_t samples = 0;
    double real_s = 0;
  };
  std::map<std::string, Used> used_;  // by label of the run
  FamilySpeeds speeds_;
  double batch_scale_ = 1;         // samples of a batch, over those that were predicted
  double step_samples_ = 0;        // loops: samples of a step of all workers, or more
  double steps_s_ = 0;             // loops: real time of a run of two steps: data, score
  bool reached_ = false;           // a trial has reached the target
  std::set<std::string> started_;  // folders of runs of this plan
  bool search_ended_ = false;      // no trial of a stage fitted into the budget
  std::set<std::string> traces_;   // tracebacks of failed runs that were shown
  std::map<std::string, std::uint64_t> most_between_scores_;  // samples, by label
  Advice advice_;
  std::optional<Error> failed_;
  std::size_t stage_ = 0, runs_ = 0;
};

// Makes the path of a matrix relative to the written job, so that both can be moved together.
void beside(std::string& matrix, const std::string& job) {
  namespace fs = std::filesystem;
  if (matrix.empty()) return;
  const fs::path from = fs::absolute(job).lexically_normal().parent_path();
  matrix = fs::absolute(matrix).lexically_normal().lexically_relative(from).string();
}

int advise(const AdviseArgs& args) {
  Adviser adviser(args);
  auto advice = adviser.advise();
  if (!advice) {
    const int code = print_error(advice.error());
    if (run::interrupted()) return kInterrupted;
    return advice.error().kind == Error::Kind::timed_out ? 1 : code;
  }
  const bool found = advice->found();
  if (!found) advice->not_written = args.write;
  if (found && !args.write.empty()) {
    run::Job best = adviser.best_job(*advice);
    beside(best.wan.mbps_csv, args.write);
    beside(best.wan.rtt_ms_csv, args.write);
    if (const Status written = run::write_atomically(args.write, run::to_toml(best)); !written)
      return print_error(invalid("--write: " + written.error().what));
  }
  const auto json = to_json(*advice);
  (void)run::write_atomically(advice->folder + "/plan.json", json_text(json) + "\n");
  if (args.common.json)
    fmt::print("{}\n", json_text(json));
  else
    fmt::print("{}", advice_text(*advice, found ? args.write : ""));
  if (run::interrupted()) {
    print_resume_hint();
    return kInterrupted;
  }
  return found ? kDone : 1;
}

}  // namespace

void add_advise(CLI::App& app, int& code) {
  auto args = std::make_shared<AdviseArgs>();
  CLI::App* sub =
      app.add_subcommand("plan", "finds the combination that reaches the job's target first");
  RunOptions& common = args->common;
  common.add_job_to(*sub, "job file (TOML) with a target in [stop]");
  auto* minutes =
      option(*sub, "--budget-minutes", args->budget_minutes,
             "real time of the search, in minutes (default: 10)", "M", CLI::Range(0.1, 10000.0));
  option(*sub, "--budget-epochs", args->budget_epochs,
         "instead: samples of all trials, in training sets; the result is the same on any "
         "machine",
         "E", CLI::Range(1.0, 1e9))
      ->excludes(minutes);
  option(*sub, "--budget-samples", args->budget_samples, "the same in samples", "N",
         CLI::Range(1.0, 1e18))
      ->excludes(minutes)
      ->excludes("--budget-epochs");
  option(*sub, "--jobs", args->at_once, "runs at a time, each a process (default: 1)", "N",
         CLI::Range(1u, 1024u));
  option(*sub, "--threads", common.threads,
         "threads of each run (default: the cores divided by --jobs)", "N", CLI::Range(1u, 1024u));
  option(*sub, "--write", args->write, "writes the recommended job", "JOB2");
  option(*sub, "--out", common.out, "folder of the trials (default: runs/NAME-plan)", "DIR");
  auto* again = sub->add_flag("--force", common.force, "overwrites the folder of an earlier plan");
  sub->add_flag("--resume", common.resume,
                "keeps the trials of an earlier plan, and continues those that it cut short")
      ->excludes(again);
  sub->add_flag("--quiet", common.quiet, "no progress");
  add_json_option(*sub, common.json);
  sub->footer(
      "Examples:\n  longhaul plan examples/mnist-4-sites.toml --budget-minutes 10 --write "
      "best.toml\n"
      "  python3 train.py plan job.toml --budget-minutes 20 --jobs 2    # a loop in Python\n"
      "Exit codes: 0 a combination reaches the target, 1 none did within the budget, 2 bad job or "
      "usage,\n130 Ctrl-C");
  sub->callback([args, &code] { code = advise(*args); });
}

}  // namespace longhaul::cli
