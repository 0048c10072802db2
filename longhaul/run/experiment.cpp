#include "longhaul/run/experiment.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/checkpoint.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/met_facts.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/recording.h"
#include "longhaul/run/run_log.h"
#include "longhaul/run/simulation.h"
#include "longhaul/run/status_file.h"
#include "longhaul/run/torch_library.h"

namespace longhaul::run {
namespace {

constexpr std::size_t kLiveSites = 64;

// One session of a simulated run: runs the world, logs, writes checkpoints, ends cleanly. A run has
// several sessions after Ctrl-C or a kill.
class Session {
 public:
  // `summary` identifies the run (summary_of()). `folder` may be null: nothing is written. `stop`:
  // see SimulateOptions; may be empty.
  Session(const Job& job, Summary summary, Simulation& simulation, const RunFolder* folder,
          Progress::Style style, std::function<bool(Round)> stop)
      : job_(job),
        blank_(std::move(summary)),
        simulation_(simulation),
        folder_(folder),
        log_(job, simulation.members(), folder, style, simulation.scores()),
        models_(job, simulation.workload(), folder ? folder->path() : ""),
        stop_(std::move(stop)) {
    sim::Observer observer;
    observer.on_report = [this](Time at, Rank rank, Round round, const Snapshot& model,
                                const Evaluation& evaluation) {
      if (!simulation_.workload().own_tests())
        return log_.scored(at, rank, round, evaluation, simulation_.world().counters().wan_bytes);
      if (round != ScoreSum::kAtEnd) log_.scored_part(at, rank, round, evaluation);
      if (rank == simulation_.first()) models_.reported(round, model);
    };
    observer.on_sum = [this](Time at, Rank node, Rank senior, Round round,
                             const Evaluation& evaluation) {
      if (node != senior) return;
      log_.scored(at, node, round, evaluation, simulation_.world().counters().wan_bytes);
      models_.summed(round, evaluation);
    };
    observer.on_record = [this](Time at, Rank rank, const Record& record) {
      log_.recorded(at, rank, record);
    };
    observer.on_bad_message = [this](Time, Rank to, Rank from, const Error& error) {
      log_.note("rank " + std::to_string(to) + " refused a message of rank " +
                std::to_string(from) + ": " + error.what);
    };
    observer.on_lost = [this](Time, Rank rank, const std::string& why) {
      log_.node_lost(rank);
      log_.note("rank " + std::to_string(rank) + " is lost: " + why);
    };
    observer.on_view = [this](Time at, Rank rank, const View& view) {
      // Once per view, by a node that does not return in it.
      const auto first = std::ranges::find_if(
          view.live, [&](Rank one) { return view.epoch == 0 || view.since(one) < view.epoch; });
      if (first == view.live.end() || rank != *first) return;
      const Members& members = simulation_.members();
      log_.note(fmt::format("at {} s: the run goes on with {} of {} nodes", exact_seconds(at),
                            view.live.size(), members.size()));
      log_.view(at, rank, simulation_.rounds(),
                std::uint64_t(std::ranges::count_if(
                    view.live, [&](Rank one) { return members[one].is(Role::worker); })));
    };
    simulation_.world().observe(std::move(observer));
    if (!simulation_.workload().own_tests())
      simulation_.wrap_scorer(
          [this](Workload::NodeScore score) { return models_.keeping_best(std::move(score)); });
  }

  // Sets SimulateOptions::until_s.
  void cut_at(std::optional<double> until_s) { until_s_ = until_s; }
  // Resumes from the newest checkpoint, or starts if there is none.
  Status resume() {
    auto newest = Checkpoints(folder_->checkpoints()).newest();
    if (!newest)
      return malformed(newest.error().what +
                       "; start again with --force, or in another folder (--out) to keep this one");
    if (!*newest) {
      log_.note(job_.job.name + ": no checkpoint yet; starts from the beginning");
      open_ = true;
      return log_.open(0);
    }
    const Checkpoint& checkpoint = **newest;
    if (checkpoint.sites != job_.sites.size())
      return invalid(fmt::format(
          "{}: of {} sites, the job has {}: a run gets sites over sockets (site, launch), not "
          "simulated; start again with --force",
          folder_->checkpoints(), checkpoint.sites, job_.sites.size()));
    if (checkpoint.job_hash != resume_hash(job_, job_.sites.size()))
      return invalid(folder_->checkpoints() + ": of another job; start again with --force");
    Archive saved(checkpoint.world);
    simulation_.world().state(saved);
    LH_TRY(saved.finish());
    Archive counted(checkpoint.experiment);
    log_.state(counted);
    LH_TRY(counted.finish());
    models_.resume(log_.best());
    checkpointed_ = checkpoint.round;
    log_.note(job_.job.name + ": resumes after round " + std::to_string(checkpoint.round));
    open_ = true;
    return log_.open(checkpoint.metrics_bytes);
  }

  // Runs until the end of the run, Ctrl-C or failure. Returns an Error if a file could not be
  // written.
  Result<Summary> run() {
    const InterruptGuard guard;
    if (!open_) {
      LH_TRY(log_.open(0));
      for (const std::string& text : simulation_.workload().warnings()) log_.warn(text);
    }
    if (folder_) status_.emplace(folder_->path());
    Result<std::optional<Error>> failure = drive();
    if (!failure) return failure.error();
    const sim::World& world = simulation_.world();
    Summary summary = blank_;
    log_.fill(summary);
    summary.rounds = simulation_.rounds();
    summary.time_s = exact_seconds(world.now());
    summary.wan_bytes = world.counters().wan_bytes;
    summary.wan_messages = world.counters().wan_messages;
    summary.compute_utilisation = world.compute_utilisation();
    if (const std::optional<Error>& error = *failure) {
      summary.stop_reason = stop_reason(*error);
      summary.failure = error->what;
    } else if (!world.finished()) {
      if (is_cut()) LH_TRY(score_cut(summary));
      const bool few = !log_.low_participation().empty();
      summary.stop_reason = few         ? StopReason::participation
                            : is_over() ? StopReason::max_hours
                                        : StopReason::interrupted;
      summary.failure = log_.low_participation();
      summary.params_hash = simulation_.parameters_hash();
    } else {
      summary.stop_reason = stop_reason(job_, log_.reached_target(), summary.rounds, world.now());
      note_divergence(simulation_.strategy(), summary);
      summary.params_hash = simulation_.parameters_hash();
      LH_TRY(conclude(summary));
    }
    log_.restore_folder();
    // Also in an interrupted session. After a failure the learners may still compute.
    if (!*failure && summary.stop_reason != StopReason::diverged)
      LH_TRY(models_.end(simulation_.model(), log_.reached_target()));
    summary.model_is_best = log_.reached_target() && models_.has_best();
    summary.real_s = log_.real_s();
    if (const auto written = log_.sync(); !written) LH_TRY(kept_at_the_end(written.error()));
    if (status_) tell_status("ended");
    if (folder_)
      replace_file(folder_->file("activity.json"),
                   simulation_.activity().to_json(world.now()).dump() + "\n");
    if (folder_)
      LH_TRY(
          kept_at_the_end(write_atomically(folder_->file("summary.json"), summary_text(summary))));
    return summary;
  }

 private:
  // Runs until the end, a stop or Ctrl-C. Returns the world's error, or nothing if there is none.
  // Such an error ends the run but not the session; the summary reports it.
  Result<std::optional<Error>> drive() {
    while (!interrupted() && log_.low_participation().empty() &&
           !(stop_ && stop_(simulation_.rounds())) && !is_cut()) {
      Result<bool> more = simulation_.step();
      if (!more) return std::optional(more.error());
      if (!*more) return std::optional<Error>();
      between_events();
      checkpoint_if_asked();
    }
    checkpoint();
    return std::optional<Error>();
  }

  bool is_cut() const { return until_s_ && exact_seconds(simulation_.world().now()) >= *until_s_; }

  // Returns true if the run was cut where its job ends it.
  bool is_over() const {
    return is_cut() && job_.stop.max_hours && *job_.stop.max_hours * 3600 <= *until_s_ * (1 + 1e-9);
  }

  void between_events() {
    const Round rounds = simulation_.rounds();
    const Round every = job_.job.checkpoint_every;
    // Not at the end: a run resumed with more rounds needs a state that can continue.
    if (every > 0 && rounds >= checkpointed_ + every && rounds < job_.stop.max_rounds) checkpoint();
    if (++events_ % 8 == 0 || log_.fresh_score()) {
      const sim::World& world = simulation_.world();
      log_.progress(rounds, world.now(), world.counters().wan_bytes);
      if (status_ && status_->due()) {
        tell_status("simulating");
        if (job_.sites.size() <= kLiveSites)  // with more sites too slow for once a second
          replace_file(folder_->file("activity.json"),
                       simulation_.activity().to_json(world.now()).dump() + "\n");
      }
      if (const auto kept = models_.look()) log_.wrote("the best model", *kept);
    }
  }

  // Returns false if no checkpoint was written. The earlier ones then stay, and the run continues.
  bool checkpoint() {
    if (!folder_ || !simulation_.can_be_saved()) return false;
    checkpointed_ = simulation_.rounds();
    Status written = write_checkpoint();
    if (!written)
      written = Error{written.error().kind, fmt::format("no checkpoint of round {}: {}",
                                                        checkpointed_, written.error().what)};
    log_.wrote("a checkpoint", written);
    return bool(written);
  }

  // Writes a checkpoint after SIGUSR1, or if the run's folder was restored.
  void checkpoint_if_asked() {
    if (log_.take_restored()) (void)checkpoint();  // the older ones are gone
    if (!requests_.take()) return;
    if (checkpoint())
      log_.note(fmt::format("checkpoint of round {}, as SIGUSR1 asks", checkpointed_));
    else if (!folder_)
      log_.note("no checkpoint, as SIGUSR1 asks: this run has no folder");
    else if (!simulation_.can_be_saved())
      log_.note(
          "no checkpoint, as SIGUSR1 asks: one with [[fault]] restart_s or [wan] model = "
          "\"packet\" has none");
  }

  Status write_checkpoint() {
    const auto bytes = log_.sync();  // first: a checkpoint must not count bytes that the file lacks
    if (!bytes) return bytes.error();
    Archive world, counted;
    simulation_.world().state(world);
    log_.state(counted);
    std::vector<float> model = simulation_.model();
    const Checkpoint checkpoint{.job_hash = resume_hash(job_, job_.sites.size()),
                                .round = simulation_.rounds(),
                                .metrics_bytes = *bytes,
                                .world = world.take(),
                                .experiment = counted.take(),
                                .sites = std::uint32_t(job_.sites.size()),
                                .members = std::uint32_t(job_.members().size()),
                                .model = std::move(model)};
    return Checkpoints(folder_->checkpoints(), job_.job.keep_checkpoints).write(checkpoint);
  }

  // Scores the final model of a run that ended by itself.
  Status conclude(Summary& summary) {
    LH_LET(score, simulation_.score());
    if (!score) return Ok{};
    summary.site_scores = simulation_.site_scores();
    log_.conclude(simulation_.world().now(), simulation_.first(), *score, summary);
    return Ok{};
  }

  // Scores the model of a cut run, which is a trial. The score is no event of the run, because the
  // run may be resumed.
  Status score_cut(Summary& summary) {
    LH_LET(score, simulation_.score());
    if (!score) return Ok{};
    summary.set_score(*score);
    return Ok{};
  }

  void tell_status(const char* state) {
    status_->write({.site = "all sites",
                    .state = state,
                    .waits_for = "",
                    .rounds = simulation_.rounds(),
                    .max_rounds = job_.stop.max_rounds,
                    .time_s = seconds(simulation_.world().now()),
                    .wan_bytes = simulation_.world().counters().wan_bytes,
                    .wan_messages = simulation_.world().counters().wan_messages,
                    .members = log_.participation().members,
                    .live = log_.participation().live});
  }

  const Job& job_;
  const Summary blank_;
  Simulation& simulation_;
  const RunFolder* folder_;
  RunLog log_;
  std::optional<StatusFile> status_;  // empty without a folder
  ModelFiles models_;
  std::function<bool(Round)> stop_;
  std::optional<double> until_s_;
  CheckpointRequests requests_;
  bool open_ = false;
  Round checkpointed_ = 0;  // round of the newest checkpoint
  std::uint64_t events_ = 0;
};

// Records all nodes of a world while it runs.
class Recordings {
 public:
  Status begin(const std::string& folder, const Job& job, Simulation& simulation,
               record::Mode mode) {
    for (Rank rank = 0; rank < simulation.world().size(); ++rank) {
      LH_LET(opened, Recording::open(folder, job, simulation.workload(),
                                     simulation.world().node(rank).place(), mode));
      all_.push_back(std::move(opened));
      simulation.world().node(rank).tap(all_.back()->tap());
    }
    return Ok{};
  }
  Status finish() {
    Status first = Ok{};
    for (const auto& one : all_)
      if (Status status = one->finish(); !status && first) first = status;
    return first;
  }

 private:
  std::vector<std::unique_ptr<Recording>> all_;
};

namespace fs = std::filesystem;

Result<Checkpoint> find_checkpoint(const std::string& path, const std::string& folder) {
  if (!fs::is_directory(path)) return read_checkpoint(path);
  LH_LET(newest, Checkpoints(folder + "/checkpoints").newest());
  if (newest) return *std::move(newest);
  return unavailable(fmt::format(
      "{}: no checkpoint in {}/checkpoints; over sockets each node has its own: RUN/SITE", path,
      folder));
}

std::vector<double> softmax(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  std::vector<double> shares;
  double sum = 0;
  for (const float logit : logits) sum += shares.emplace_back(std::exp(double(logit) - most));
  for (double& share : shares) share /= sum;
  return shares;
}

void answer_class(std::span<const float> logits, Answers& all) {
  const auto best = std::size_t(std::ranges::max_element(logits) - logits.begin());
  all.predicted.push_back({all.classes.at(best)});
  all.probabilities.push_back(softmax(logits));
}

void answer_labels(std::span<const float> logits, Answers& all) {
  std::vector<std::string>& held = all.predicted.emplace_back();
  std::vector<double>& shares = all.probabilities.emplace_back();
  for (const float logit : logits) {
    held.push_back(logit > 0 ? "1" : "0");
    shares.push_back(1 / (1 + std::exp(-double(logit))));
  }
}

void answer_numbers(std::span<const float> values, Answers& all) {
  std::vector<std::string>& said = all.predicted.emplace_back();
  for (const float value : values) said.push_back(fmt::format("{}", value));
  all.probabilities.emplace_back();
}

}  // namespace

Result<Summary> simulate(const Job& job, const SimulateOptions& options) {
  const bool writes = !options.folder.empty();
  if (options.record && !writes) return invalid("a recording needs the folder of a run");
  if (!job.run.without.empty())
    return invalid(job.file +
                   ": [run] without is for site and launch; in a simulated job take the [[site]] "
                   "away, or say [[fault]] kind = \"crash\"");
  const ExistingFolder existing = RunFolder::resolve(options.folder, options.existing);
  if (writes) LH_TRY(RunFolder::check(options.folder, job, existing));
  if (writes && existing == ExistingFolder::resume) {
    LH_LET(over, nothing_left(options.folder, job));
    if (over) return *over;
  }
  LH_LET(workload, Workload::load(job, /*numbers=*/true, options.learners));
  // Made before the nodes: summary_of() takes memory for each key of each site.
  const Summary blank = summary_of(job);
  LH_LET(simulation, Simulation::make(job, std::move(workload), options.threads));
  std::optional<RunFolder> folder;
  if (writes) {
    LH_LET(opened, RunFolder::open(options.folder, job, existing));
    folder = std::move(opened);
  }
  Session session(job, blank, *simulation, folder ? &*folder : nullptr, options.progress,
                  options.stop);
  session.cut_at(options.until_s);
  if (existing == ExistingFolder::resume && folder) LH_TRY(session.resume());
  Recordings recordings;
  if (options.record) LH_TRY(recordings.begin(folder->path(), job, *simulation, *options.record));
  auto summary = session.run();
  if (const Status recorded = recordings.finish(); summary && !recorded)
    return Error{recorded.error().kind,
                 recorded.error().what + "; the recording ends there, the run itself is whole"};
  return summary;
}

Result<Score> evaluate(const std::string& run_folder) {
  LH_LET(job, job_of_run(run_folder));
  const std::string kind = job.kind("model");
  if (kind == "phantom" || kind == "own")
    return invalid(run_folder + ": [model] kind = \"" + kind + "\" has no model.pt to score" +
                   (kind == "own" ? "; longhaul.load_model() in Python loads its model.f32" : ""));
  const std::string file = run_folder + "/model.pt";
  if (auto there = read_file(file); !there)
    return unavailable(file + ": no such file; the run has not come to its end: resume it first");
  LH_LET(workload, workload_of_run(job, run_folder));
  LH_LET(model, workload.load_model(file));
  LH_LET(scorer, workload.make_scorer(std::max(1u, std::thread::hardware_concurrency())));
  LH_LET(evaluation, scorer(model));
  const auto exchanged = std::span(model).first(workload.layout()->size());
  return Score{evaluation.accuracy, evaluation.loss, evaluation.samples, params_hash(exchanged)};
}

Result<PartitionTable> partition_table(const Job& job, const OwnLearners* own) {
  const bool none = job.kind("data") == "none" || job.kind("data") == "own";
  if (none && job.kind("model") == "own" && !own) return PartitionTable{};
  LH_LET(workload, Workload::load(job, /*numbers=*/false, own));
  PartitionTable table;
  table.layout = workload.layout();
  table.parameters = table.layout->parameters().length;
  if (none) return table;
  for (const Member& member : job.members())
    if (member.is(Role::worker))
      table.workers.push_back(member.rank_in_site == 0
                                  ? member.site
                                  : fmt::format("{}/{}", member.site, member.rank_in_site));
  table.counts = workload.label_counts();
  table.absent.assign(workload.absent().begin(), workload.absent().end());
  table.absent_samples = workload.absent_samples();
  const learn::Split& data = workload.data();
  table.labels = data.train->names;
  table.columns = data.train->columns;
  table.standardised = !data.scales.empty();
  table.scales =
      table.standardised || table.columns.empty() ? data.scales : learn::column_scales(*data.train);
  return table;
}

std::string scale_hint(const PartitionTable& table) {
  constexpr double kFarApart = 30;
  const auto varies = [](const learn::ColumnScale& scale) { return scale.std > 0; };
  if (table.standardised || std::ranges::count_if(table.scales, varies) < 2) return "";
  std::size_t least = table.scales.size(), most = table.scales.size();
  for (std::size_t i = 0; i < table.scales.size(); ++i) {
    if (!varies(table.scales[i])) continue;
    if (least == table.scales.size() || table.scales[i].std < table.scales[least].std) least = i;
    if (most == table.scales.size() || table.scales[i].std > table.scales[most].std) most = i;
  }
  if (table.scales[most].std < kFarApart * table.scales[least].std) return "";
  return fmt::format(
      "column {} varies by {:.2g}, {} by {:.2g}, and the model gets both as they are: [data] "
      "standardise = true brings them to one scale",
      "'" + table.columns[most] + "'", table.scales[most].std, "'" + table.columns[least] + "'",
      table.scales[least].std);
}

std::string chance_hint(const Job& job, const Summary& summary) {
  if (job.kind("data") != "csv" || !summary.final_accuracy) return "";
  const auto table = partition_table(job);
  if (!table || table->counts.empty() || table->counts.front().size() < 2) return "";
  double all = 0, most = 0;
  for (std::size_t label = 0; label < table->counts.front().size(); ++label) {
    double count = 0;
    for (const auto& worker : table->counts) count += double(worker[label]);
    all += count;
    most = std::max(most, count);
  }
  constexpr double kBetter = 0.05;
  return *summary.final_accuracy > most / all + kBetter ? "" : scale_hint(*table);
}

Result<Exported> export_checkpoint(const std::string& path, const std::string& out) {
  const bool is_folder = fs::is_directory(path);
  if (!is_folder && !fs::exists(path))
    return unavailable(fmt::format("{}: no such checkpoint or run folder", path));
  const std::string folder =
      is_folder ? path : fs::absolute(path).parent_path().parent_path().string();
  LH_LET(job, job_of_run(folder));
  LH_LET(checkpoint, find_checkpoint(path, folder));
  if (checkpoint.model.empty())
    return invalid(path + ": holds no model: its node has no learner, or the model is a phantom");
  LH_LET(workload, workload_of_run(job, folder));
  if (checkpoint.model.size() != workload.whole_layout()->size())
    return malformed(fmt::format("{}: holds {} values, but the job's model has {}", path,
                                 checkpoint.model.size(), workload.whole_layout()->size()));
  const std::string file = out.empty() ? folder + "/exported." + model_extension(job) : out;
  LH_TRY(workload.save(file, checkpoint.model));
  return Exported{file, checkpoint.round, checkpoint.model.size()};
}

Result<Answers> answers(const std::string& run, const std::string& csv) {
  LH_LET(job, job_of_run(run));
  if (job.kind("data") != "csv")
    return invalid(
        fmt::format("{}: [data] kind = \"{}\": predict reads csv files; model.pt takes other "
                    "data in Python or C++",
                    run, job.kind("data")));
  LH_LET(meaning, read_data_file(run));
  LH_LET(config, learn::read_data(job.data));
  LH_LET(model, learn::read_model(job.model));
  LH_LET(data, learn::load_to_predict(config, csv, meaning.like, meaning.scales, meaning.fills));
  LH_LET(torch, torch_library());
  learn::ModelConfig file = std::move(model);
  file.kind = "script";
  file.path = run + "/model.pt";
  file.device = "cpu";
  LH_LET(outputs, torch->outputs_of(file, data));
  Answers all{
      .targets = meaning.like.target_columns, .classes = {}, .predicted = {}, .probabilities = {}};
  const auto width = std::size_t(data.shape.outputs);
  const bool classifies = data.shape.task == learn::Task::classification;
  if (classifies) all.classes = meaning.like.names;
  for (std::size_t i = all.classes.size(); classifies && i < width; ++i)
    all.classes.push_back(std::to_string(i));
  const std::size_t named = classifies ? 1 : width;
  for (std::size_t i = all.targets.size(); i < named; ++i)
    all.targets.push_back(named == 1 ? "prediction" : fmt::format("prediction {}", i + 1));
  for (std::size_t at = 0; at < outputs.size(); at += width) {
    const std::span<const float> one(outputs.data() + at, width);
    if (classifies)
      answer_class(one, all);
    else if (data.shape.task == learn::Task::multilabel)
      answer_labels(one, all);
    else
      answer_numbers(one, all);
  }
  return all;
}

}  // namespace longhaul::run
