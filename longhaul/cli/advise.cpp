// longhaul plan: which combination reaches the job's target first on its network.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "longhaul/cli/advise_text.h"
#include "longhaul/cli/cli.h"
#include "longhaul/cli/compare_jobs.h"
#include "longhaul/cli/output.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/report/run_reader.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/run_pool.h"
#include "longhaul/run/torch_library.h"

namespace longhaul::cli {
namespace {

// One thread. Every candidate that it hands out has a job().
// The combinations that `longhaul plan` may try: which are legal, how fast each is by a dry run
// without numbers, and which are near to one another.
class AdviseCandidates {
  // Strategies that measure something, and those that need a convex model.
  static constexpr std::string_view kNotAdvised[] = {"staleness_lab", "skewscout", "gadmm", "lag"};
  // Codecs that are tried, and of them the one with the fewest bytes.
  static constexpr const char* kTriedCodecs[] = {"fp16", "int8", "q_top_k"};
  static constexpr const char* kSparse = "q_top_k";
  // With another codec only the overlays that are fast with the job's own are looked at.
  static constexpr std::size_t kFastOverlays = 5;

  static std::optional<std::uint64_t> steps_of(const run::Job& job) {
    for (const run::ResolvedTable& table : run::resolved(job))
      if (table.name == "sync")
        for (const run::ResolvedKey& key : table.keys)
          if (key.key == "steps" && !key.value.empty() &&
              std::isdigit(static_cast<unsigned char>(key.value[0])))
            return std::stoull(key.value);
    return std::nullopt;
  }

  static bool is_faster(const Candidate& a, const Candidate& b) {
    return a.samples_per_s > b.samples_per_s;
  }

 public:
  // `options` outlives this. `job`: as the options load it.
  AdviseCandidates(const RunOptions& options, const run::Job& job)
      : options_(options), codec_(job.kind("codec")) {}

  // Times every legal strategy over every overlay, and with the sparse codec; those after `is_over`
  // are counted only. Error: no combination can be simulated, or none was before the end.
  Status predict_all(const std::function<bool()>& is_over) {
    CompareAxes axes;
    axes.syncs = axes.overlays = {"all"};
    LH_LET(made, compared_jobs(options_, axes));
    illegal_ = made.skipped.size();
    // One overlay of every strategy after the other, so that none is left out when time is short.
    std::map<std::string, std::size_t> seen;
    std::vector<std::pair<std::size_t, const ComparedJob*>> order;
    for (const ComparedJob& one : made.jobs) order.emplace_back(seen[one.job.kind("sync")]++, &one);
    std::ranges::stable_sort(order, {}, [](const auto& entry) { return entry.first; });
    std::map<std::string, std::vector<Candidate>> by_sync;
    stop_when(is_over);
    for (const auto& [number, one] : order) {
      const std::string sync = one->job.kind("sync");
      if (std::ranges::find(kNotAdvised, sync) != std::end(kNotAdvised)) {
        left_out_.insert(sync);
      } else if (is_over()) {
        ++not_predicted_;
      } else if (const auto candidate = predicted({sync, one->job.kind("overlay"), codec_})) {
        by_sync[sync].push_back(*candidate);
      }
    }
    if (by_sync.empty() && not_predicted_ > 0)
      return Error{
          Error::Kind::timed_out,
          "plan: nothing was simulated before the budget was over, or Ctrl-C came: give it "
          "longer, --budget-minutes"};
    if (by_sync.empty()) return invalid("plan: no combination can be simulated");
    for (auto& [sync, candidates] : by_sync) {
      std::stable_sort(candidates.begin(), candidates.end(), is_faster);
      for (const Candidate& one : candidates) overlays_[sync].push_back(one.overlay);
    }
    for (const auto& [sync, overlays] : overlays_)
      if (!is_over()) (void)fastest({sync, "", kSparse});
    return Ok{};
  }

  // From now on nothing is predicted when this says so: candidates not predicted yet are counted.
  void stop_when(std::function<bool()> is_over) { is_over_ = std::move(is_over); }
  // Of each strategy the overlay with the most samples a second; the same with the sparse codec
  // where that is faster. The fastest first.
  std::vector<Candidate> first() const {
    std::map<std::string, Candidate> plain, sparse;
    for (const auto& [choice, candidate] : predicted_) {
      if (!candidate || choice.steps > 0) continue;
      auto& best = choice.codec == codec_ ? plain : sparse;
      const auto [at, fresh] = best.emplace(choice.sync, *candidate);
      if (!fresh && is_faster(*candidate, at->second)) at->second = *candidate;
    }
    std::vector<Candidate> chosen;
    for (const auto& [sync, candidate] : plain) {
      chosen.push_back(candidate);
      if (const auto at = sparse.find(sync);
          at != sparse.end() && at->second.samples_per_s > 1.2 * candidate.samples_per_s)
        chosen.push_back(at->second);
    }
    std::stable_sort(chosen.begin(), chosen.end(), is_faster);
    return chosen;
  }

  // Of a candidate that did well: other codecs, each over the overlay that suits it best, other
  // steps, and overlays that are as fast.
  std::vector<Candidate> neighbours(const Candidate& near) {
    std::vector<Candidate> found;
    const Choice choice = choice_of(near);
    const auto add = [&](const std::optional<Candidate>& one, double least) {
      if (one && one->samples_per_s >= least * near.samples_per_s) found.push_back(*one);
    };
    std::vector<std::string> codecs = {codec_};
    for (const char* codec : kTriedCodecs)
      if (codec != codec_) codecs.push_back(codec);
    for (const std::string& codec : codecs) {
      if (codec == choice.codec) continue;
      // What sends more may learn more of a sample; what sends less has to be faster.
      Choice other = choice;
      other.codec = codec;
      add(predicted(other), 0.3);
      add(fastest(other), 0.3);
    }
    if (const auto steps = steps_of(job(near)))
      for (const double factor : {0.25, 0.5, 2.0, 4.0}) {
        Choice other = choice;
        other.steps = std::max<std::uint64_t>(1, std::uint64_t(double(*steps) * factor));
        if (other.steps == *steps) continue;
        if (other.steps == own_steps(choice)) other.steps = 0;
        add(predicted(other), 0.3);
      }
    add_overlays(choice, near, 0.9 * near.samples_per_s, 2, found);
    return found;
  }

  // As the user's, with an end by time or samples only.
  const run::Job& job(const Candidate& candidate) const { return jobs_.at(candidate.label); }
  // The end by rounds that the user's job has.
  std::uint64_t max_rounds(const Candidate& c) const { return max_rounds_.at(c.label); }
  std::size_t predicted() const { return predicted_.size(); }
  std::size_t not_predicted() const { return not_predicted_; }
  std::size_t illegal() const { return illegal_; }
  const std::set<std::string>& left_out() const { return left_out_; }

 private:
  // What tells candidates apart.
  struct Choice {
    std::string sync, overlay, codec;
    std::uint64_t steps = 0;  // 0: as the job has it, or the strategy has none
    auto operator<=>(const Choice&) const = default;
  };
  Choice choice_of(const Candidate& candidate) const { return choices_.at(candidate.label); }

  // Nothing: it is illegal, or fails without numbers.
  std::optional<Candidate> predicted(const Choice& choice) {
    if (const auto known = predicted_.find(choice); known != predicted_.end()) return known->second;
    if (is_over_ && is_over_()) {
      ++not_predicted_;
      return std::nullopt;
    }
    const auto at = predicted_.emplace(choice, std::nullopt).first;
    CompareAxes axes;
    axes.lenient = true;
    axes.syncs = {choice.sync};
    axes.overlays = {choice.overlay};
    if (choice.codec != codec_) axes.codecs = {choice.codec};
    if (choice.steps > 0) axes.sweeps = {fmt::format("sync.steps={}", choice.steps)};
    auto made = compared_jobs(options_, axes);
    if (!made) {
      ++illegal_;
      return std::nullopt;
    }
    ComparedJob& one = made->jobs.front();
    const auto prediction = run::predict(one.job, embedding().learners);
    if (!prediction || !(prediction->round_s > 0)) return std::nullopt;
    max_rounds_.emplace(one.label, std::exchange(one.job.stop.max_rounds, std::uint64_t{1} << 53));
    at->second =
        Candidate{.label = one.label,
                  .sets = {},
                  .sync = choice.sync,
                  .overlay = choice.overlay,
                  .codec = choice.codec,
                  .samples_per_s = double(run::samples_per_round(one.job)) / prediction->round_s};
    choices_.emplace(one.label, choice);
    jobs_.emplace(one.label, std::move(one.job));
    return at->second;
  }

  // Overlays but its own that use at least so many samples a second.
  void add_overlays(Choice near, const Candidate& of, double least, std::size_t most,
                    std::vector<Candidate>& found) {
    std::vector<Candidate> others;
    for (const std::string& overlay : overlays_of(near.sync)) {
      near.overlay = overlay;
      const auto one = predicted(near);
      if (one && one->label != of.label && one->samples_per_s >= least) others.push_back(*one);
    }
    std::stable_sort(others.begin(), others.end(), is_faster);
    if (others.size() > most) others.resize(most);
    found.insert(found.end(), others.begin(), others.end());
  }

  // The fastest overlay for that strategy, codec and steps.
  std::optional<Candidate> fastest(Choice choice) {
    std::optional<Candidate> best;
    for (const std::string& overlay : overlays_of(choice.sync)) {
      choice.overlay = overlay;
      const auto one = predicted(choice);
      if (one && (!best || is_faster(*one, *best))) best = one;
    }
    return best;
  }

  // Those that the job gives the strategy, for which a choice says 0.
  std::uint64_t own_steps(Choice choice) {
    choice.codec = codec_;
    choice.steps = 0;
    const auto plain = predicted(choice);
    return plain ? steps_of(job(*plain)).value_or(0) : 0;
  }

  // In the order of their rates with the job's own codec; a server's also has its simplest ways.
  std::vector<std::string> overlays_of(const std::string& sync) const {
    std::vector<std::string> overlays = overlays_.at(sync), chosen;
    for (const std::string& overlay : overlays)
      if (chosen.size() < kFastOverlays || overlay == "direct" || overlay == "gather" ||
          overlay == "hub")
        chosen.push_back(overlay);
    return chosen;
  }

  const RunOptions& options_;
  const std::string codec_;  // the job's
  std::map<Choice, std::optional<Candidate>> predicted_;
  std::map<std::string, Choice> choices_;  // by label
  std::map<std::string, run::Job> jobs_;   // by label
  std::map<std::string, std::uint64_t> max_rounds_;
  std::map<std::string, std::vector<std::string>> overlays_;  // legal for a strategy, fastest first
  std::set<std::string> left_out_;
  std::size_t not_predicted_ = 0, illegal_ = 0;
  std::function<bool()> is_over_;  // empty: never
};

using AdviseClock = std::chrono::steady_clock;
constexpr std::size_t kSeedsBeside = 2;
constexpr double kFirstShare = 0.3;  // of the budget for the first stage
// So often, by its predicted speed, a trial is scored in its first stage at least: what one has
// learned that is cut before its first score does not show.
constexpr double kScores = 6;

struct AdviseArgs {
  RunOptions common;
  double budget_minutes = 10;
  std::optional<double> budget_epochs;  // in its place
  unsigned at_once = 1;
  std::string write;
};

class Adviser {
 public:
  explicit Adviser(const AdviseArgs& args) : args_(args) {}

  Result<Advice> advise() {
    LH_TRY(prepare());
    const run::InterruptGuard guard;  // between two stages, too
    LH_TRY(predict());
    std::vector<Candidate> first = candidates_->first();
    advice_.fastest = first;
    const double limit_s = first_limit(first);
    if (failed_) return *failed_;
    const SearchHooks hooks = {
        .run = [this](const auto& candidates, double limit) { return trials(candidates, limit); },
        .neighbours = [this](const Candidate& near) { return neighbours(near); },
        .is_over = [this] { return is_over(0.85); }};
    advice_.search = successive_halving(std::move(first), limit_s, hooks);
    if (failed_) return *failed_;
    repeat_winner();
    advice_.spent_s = spent_s();
    advice_.interrupted = run::interrupted();
    advice_.runs = runs_;
    advice_.predicted = candidates_->predicted();
    advice_.not_predicted = candidates_->not_predicted();
    advice_.illegal = candidates_->illegal();
    advice_.left_out = candidates_->left_out();
    if (training_samples_ > 0) advice_.epochs = double(samples_) / double(training_samples_);
    return std::move(advice_);
  }

  // The best one's job without the limit of a trial: with the [stop] of the user, and twice the
  // rounds that its runs took to the target where max_rounds would have ended one of them before.
  run::Job best_job(Advice& advice) const {
    const Candidate& best = advice.search.ranking.front().candidate;
    run::Job job = trial_job(best);
    job.stop.max_rounds = candidates_->max_rounds(best);
    if (job.stop.max_rounds < rounds_to_target_) {
      advice.rounds_before = job.stop.max_rounds;
      advice.rounds_written = job.stop.max_rounds = 2 * rounds_to_target_;
    }
    return job;
  }

 private:
  // Scored as often as its first trial has to be.
  run::Job trial_job(const Candidate& candidate) const {
    run::Job job = candidates_->job(candidate);
    const auto most = most_between_scores_.find(candidate.label);
    if (most != most_between_scores_.end())
      job.report.every_samples = std::min(job.report.every_samples, most->second);
    return job;
  }
  double budget_s() const { return 60 * args_.budget_minutes; }
  // So much of the budget is used up, or Ctrl-C.
  bool is_over(double share) const {
    if (run::interrupted()) return true;
    if (!args_.budget_epochs) return spent_s() > share * budget_s();
    return double(samples_) > share * *args_.budget_epochs * double(training_samples_);
  }
  double spent_s() const {
    return std::chrono::duration<double>(AdviseClock::now() - begin_).count();
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
    folder_ = args_.common.out.empty() ? "runs/" + job.job.name + "-plan" : args_.common.out;
    advice_.folder = folder_;
    std::error_code code;
    if (!std::filesystem::is_empty(folder_, code) && !code && !args_.common.force &&
        !args_.common.resume)
      return invalid(folder_ +
                     ": exists already; --resume goes on with its trials, --force replaces it, "
                     "--out DIR writes elsewhere");
    LH_LET(data, run::partition_table(job));
    for (const auto& labels : data.counts)
      training_samples_ += std::accumulate(labels.begin(), labels.end(), std::uint64_t{0});
    candidates_.emplace(args_.common, job);
    run::preload_torch_library(job);
    return Ok{};
  }

  // Without numbers, and so in this process.
  Status predict() {
    note("predicting strategies and overlays without numbers");
    return candidates_->predict_all([this] {
      return run::interrupted() || (!args_.budget_epochs && spent_s() > 0.2 * budget_s());
    });
  }

  std::vector<Candidate> neighbours(const Candidate& near) {
    candidates_->stop_when([this] { return is_over(0.85); });
    return candidates_->neighbours(near);
  }

  // The virtual time for which a third of the budget is enough for all; not more than one of them
  // takes to the target.
  double first_limit(const std::vector<Candidate>& candidates) {
    const Candidate& probe = candidates[candidates.size() / 2];
    const double samples = double(run::samples_per_round(candidates_->job(probe)));
    const auto trial = trials({probe}, 20 * samples / probe.samples_per_s);
    double rate = 0;
    for (const Candidate& candidate : candidates) rate += candidate.samples_per_s;
    double limit = kFirstShare * samples_of_budget(trial) / rate;
    if (!trial.empty() && trial[0].to_target) limit = std::min(limit, *trial[0].to_target);
    return limit;
  }

  // With a budget of time: by the real time that the probe took for its samples.
  double samples_of_budget(const std::vector<Trial>& probe) const {
    if (args_.budget_epochs) return *args_.budget_epochs * double(training_samples_);
    double per_sample = 1e-4;  // s
    if (!probe.empty() && probe[0].ran && probe[0].summary.samples.computed > 0)
      per_sample = probe[0].summary.real_s / double(probe[0].summary.samples.computed);
    return budget_s() * double(args_.at_once) / per_sample;
  }

  std::vector<Trial> trials(const std::vector<Candidate>& candidates, double limit_s) {
    ++stage_;
    note(fmt::format("stage {}: {} of {} at most", stage_, count_text(candidates.size(), "run"),
                     run::duration_text(limit_s)));
    std::vector<run::PoolRun> runs;
    for (const Candidate& candidate : candidates) {
      const double samples = candidate.samples_per_s * limit_s;
      most_between_scores_.try_emplace(candidate.label, std::uint64_t(samples / kScores) + 1);
      run::Job job = trial_job(candidate);
      job.stop.max_hours = limit_s / 3600;
      const std::string folder = fmt::format("{}/trials/{}", folder_, candidate.label);
      const bool begun = computed_.contains(candidate.label) || goes_on(folder, job);
      auto pool_run = write_job(folder, job);
      if (!pool_run) failed_ = pool_run.error();
      if (failed_) return {};
      pool_run->until_s = limit_s;
      pool_run->resume = begun;  // where the stage before has cut it, or an earlier plan
      pool_run->force &= !begun;
      runs.push_back(*pool_run);
    }
    return run_trials(runs, candidates, limit_s);
  }

  // A trial of an earlier plan, with --resume; one of another job begins anew.
  bool goes_on(const std::string& folder, const run::Job& job) const {
    return args_.common.resume && can_go_on(folder, job);
  }

  Result<run::PoolRun> write_job(const std::string& path, const run::Job& job) {
    LH_TRY(run::make_folder(std::filesystem::path(path).parent_path().string()));
    LH_TRY(run::write_atomically(path + ".toml", run::to_toml(job)));
    return run::PoolRun{.label = std::filesystem::path(path).filename().string(),
                        .job = path + ".toml",
                        .folder = path,
                        .force = args_.common.force || args_.common.resume};
  }

  std::vector<Trial> run_trials(const std::vector<run::PoolRun>& runs,
                                const std::vector<Candidate>& candidates, double limit_s) {
    const auto ends = run_all_or_anew(
        runs, {.simulate = run_words_in_copies(),
               .at_once = args_.at_once,
               .threads = args_.common.threads,
               .progress = run::Progress::detect(args_.common.quiet),
               .stop = [this] { return !args_.budget_epochs && spent_s() > 0.97 * budget_s(); }});
    std::vector<Trial> trials;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Trial trial{.candidate = candidates[i], .why = ends[i].message, .to_target = {}};
      runs_ += ends[i].started;
      auto summary = run::read_summary(runs[i].folder);
      if (summary && *summary && ends[i].exit.done()) {
        trial.ran = (**summary).stop_reason != run::StopReason::diverged;
        if (!trial.ran) trial.why = (**summary).failure;
        trial.summary = **summary;
        // Of all stages, when it was resumed.
        std::uint64_t& computed = computed_[runs[i].label];
        samples_ +=
            trial.summary.samples.computed - std::min(computed, trial.summary.samples.computed);
        computed = trial.summary.samples.computed;
        trial.to_target = trial.summary.time_to_target_s;
        trial.limit_s = limit_s;
        note_score(runs[i].folder, trial);
      }
      trials.push_back(std::move(trial));
    }
    return trials;
  }

  // Of the newest model scored by its limit. Of one whose first score is later, less than that
  // score; of one that was never scored on the way, the score at its end.
  static void note_score(const std::string& folder, Trial& trial) {
    const run::Summary& summary = trial.summary;
    const bool bits = summary.target_bits_per_byte.has_value();
    trial.score = bits ? -1e3 : 0;
    trial.scored = false;
    report::RunReader reader(folder);
    if (reader.refresh())
      for (const report::ScorePoint& point : reader.scores()) {
        if (!point.score) continue;
        const double value = bits ? -*point.score : *point.score;
        const double late = std::max(1.0, point.time_s / trial.limit_s);
        if (!trial.scored || late <= 1) trial.score = bits ? value * late : value / late;
        trial.scored = true;
        if (late > 1) break;
      }
    const auto at_end = bits ? summary.bits_per_byte() : summary.final_accuracy;
    if (trial.scored || !at_end) return;
    trial.score = bits ? -*at_end : *at_end;
    trial.scored = true;
  }

  // The winner with other seeds: a range.
  void repeat_winner() {
    if (advice_.search.ranking.empty() || run::interrupted()) return;
    const Trial& winner = advice_.search.ranking.front();
    if (!winner.to_target) return;
    advice_.times = {*winner.to_target};
    rounds_to_target_ = winner.summary.rounds;
    if (is_over(0.95) && !args_.budget_epochs) return;
    std::vector<run::PoolRun> runs;
    for (std::size_t i = 1; i <= kSeedsBeside; ++i) {
      run::Job job = trial_job(winner.candidate);
      job.job.seed += i;
      job.stop.max_hours = 3 * *winner.to_target / 3600;
      auto run = write_job(fmt::format("{}/seeds/seed-{}", folder_, job.job.seed), job);
      if (!run) return;
      run->until_s = 3 * *winner.to_target;
      run->resume = goes_on(run->folder, job);
      run->force &= !run->resume;
      runs.push_back(*run);
    }
    note(fmt::format("the best one with {} more seeds", kSeedsBeside));
    for (const Trial& trial :
         run_trials(runs, std::vector<Candidate>(runs.size(), winner.candidate), 0))
      if (trial.to_target) {
        advice_.times.push_back(*trial.to_target);
        rounds_to_target_ = std::max<std::uint64_t>(rounds_to_target_, trial.summary.rounds);
      }
  }

  const AdviseArgs& args_;
  const AdviseClock::time_point begin_ = AdviseClock::now();
  std::string folder_;
  std::optional<AdviseCandidates> candidates_;
  std::uint64_t training_samples_ = 0, samples_ = 0;  // of the job's data; computed by all trials
  std::map<std::string, std::uint64_t> computed_;     // samples of each trial that has begun
  std::map<std::string, std::uint64_t> most_between_scores_;  // by label, samples
  Advice advice_;
  std::optional<Error> failed_;
  std::size_t stage_ = 0, runs_ = 0;
  std::uint64_t rounds_to_target_ = 0;  // the most of the best one's runs
};

// A matrix as the written job has to name it: seen from where that lies, so that both can be moved
// together.
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
  CLI::App* sub = app.add_subcommand(
      "plan", "searches strategies, overlays and settings in the simulator; recommends one");
  RunOptions& common = args->common;
  common.add_job_to(*sub, "job file (TOML) with a target in [stop]");
  auto* minutes = option(*sub, "--budget-minutes", args->budget_minutes,
                         "real time to search (default 10)", "M", CLI::Range(0.1, 10000.0));
  option(*sub, "--budget-epochs", args->budget_epochs,
         "instead: samples that all trials may use, in training sets; the same result on "
         "any machine",
         "E", CLI::Range(1.0, 1e9))
      ->excludes(minutes);
  option(*sub, "--jobs", args->at_once, "runs at a time, each a process (default 1)", "N",
         CLI::Range(1u, 1024u));
  option(*sub, "--threads", common.threads, "of each run (default: the cores, divided)", "N",
         CLI::Range(1u, 1024u));
  option(*sub, "--write", args->write, "writes the recommended job", "JOB2");
  option(*sub, "--out", common.out, "folder of the trials (default: runs/NAME-plan)", "DIR");
  auto* again = sub->add_flag("--force", common.force, "overwrites the folder of an earlier plan");
  sub->add_flag("--resume", common.resume,
                "keeps the trials of an earlier plan and takes them further where they were cut")
      ->excludes(again);
  sub->add_flag("--quiet", common.quiet, "no progress");
  sub->add_flag("--json", common.json, "prints the result as one JSON object and nothing else");
  sub->footer(
      "Example:\n  longhaul plan examples/mnist-4-sites.toml --budget-minutes 10 --write "
      "best.toml\n"
      "Exit codes: 0 one reaches the target, 1 none did in the budget, 2 bad job or usage, 130 "
      "Ctrl-C");
  sub->callback([args, &code] { code = advise(*args); });
}

}  // namespace longhaul::cli
