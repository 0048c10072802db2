#include "longhaul/run/session.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"

namespace longhaul::run {
namespace {

constexpr std::size_t kLiveSites = 64;

}  // namespace

Session::Session(const Job& job, Summary summary, Simulation& simulation, const RunFolder* folder,
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
    log_.note("rank " + std::to_string(to) + " refused a message of rank " + std::to_string(from) +
              ": " + error.what);
  };
  observer.on_lost = [this](Time, Rank rank, const std::string& why) {
    log_.node_lost(rank);
    log_.note("rank " + std::to_string(rank) + " is lost: " + why);
  };
  observer.on_view = [this](Time at, Rank rank, const View& view) {
    if (rank != view.live.front()) return;  // told once
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

Status Session::resume() {
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

// One that cannot be written leaves those of before: the run goes on.
bool Session::checkpoint() {
  if (!folder_ || !simulation_.can_be_saved()) return false;
  checkpointed_ = simulation_.rounds();
  Status written = write_checkpoint();
  if (!written)
    written = Error{written.error().kind, fmt::format("no checkpoint of round {}: {}",
                                                      checkpointed_, written.error().what)};
  log_.wrote("a checkpoint", written);
  return bool(written);
}

void Session::checkpoint_if_asked() {
  if (log_.take_restored()) (void)checkpoint();  // the older ones went with it
  if (!requests_.take()) return;
  if (checkpoint())
    log_.note(fmt::format("checkpoint of round {}, as SIGUSR1 asks", checkpointed_));
  else if (!folder_)
    log_.note("no checkpoint, as SIGUSR1 asks: this run has no folder");
  else if (!simulation_.can_be_saved())
    log_.note("no checkpoint, as SIGUSR1 asks: a run with [[fault]] restart_s has none");
}

Status Session::write_checkpoint() {
  const auto bytes = log_.sync();  // first: a checkpoint never counts bytes that are not there
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

void Session::between_events() {
  const Round rounds = simulation_.rounds();
  const Round every = job_.job.checkpoint_every;
  // Not at the end: who resumes with more rounds needs a state in which the run goes on.
  if (every > 0 && rounds >= checkpointed_ + every && rounds < job_.stop.max_rounds) checkpoint();
  if (++events_ % 8 == 0 || log_.fresh_score()) {
    const sim::World& world = simulation_.world();
    log_.progress(rounds, world.now(), world.counters().wan_bytes);
    if (status_ && status_->due()) {
      tell_status("simulating");
      if (job_.sites.size() <= kLiveSites)  // of more it takes too long for once a second
        replace_file(folder_->file("activity.json"),
                     simulation_.activity().to_json(world.now()).dump() + "\n");
    }
    if (const auto kept = models_.look()) log_.wrote("the best model", *kept);
  }
}

void Session::tell_status(const char* state) {
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

// What the model of a run is worth that came to its end by itself.
Status Session::conclude(Summary& summary) {
  auto score = simulation_.score();
  if (!score) return score.error();
  if (*score) {
    summary.site_scores = simulation_.site_scores();
    summary.final_loss = (**score).loss;
    summary.final_accuracy = (**score).accuracy;
    log_.concluded(simulation_.world().now(), simulation_.first(), summary.rounds, **score);
    const auto [loss, accuracy] = std::pair(summary.final_loss, summary.final_accuracy);
    log_.fill(summary);
    summary.final_loss = loss;
    summary.final_accuracy = accuracy;
    if (log_.reached_target() && summary.stop_reason != StopReason::diverged)
      summary.stop_reason = StopReason::target;
    note_divergence(**score, summary);
  }
  return Ok{};
}

// A run that is cut is a trial: its model's score says what it came to. It is no event of the run,
// which may be resumed.
Status Session::score_cut(Summary& summary) {
  auto score = simulation_.score();
  if (!score) return score.error();
  if (!*score) return Ok{};
  summary.final_loss = (**score).loss;
  summary.final_accuracy = (**score).accuracy;
  return Ok{};
}

bool Session::is_cut() const {
  return until_s_ && exact_seconds(simulation_.world().now()) >= *until_s_;
}

// It was cut where its job ends it.
bool Session::is_over() const {
  return is_cut() && job_.stop.max_hours && *job_.stop.max_hours * 3600 <= *until_s_ * (1 + 1e-9);
}

// The world's own failure ends the run but not the session: it is told in the summary.
Result<std::optional<Error>> Session::drive() {
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

Result<Summary> Session::run() {
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
  // Also of a session that was interrupted; the learners of one that failed may still compute.
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
    LH_TRY(kept_at_the_end(write_atomically(folder_->file("summary.json"), summary_text(summary))));
  return summary;
}

}  // namespace longhaul::run
