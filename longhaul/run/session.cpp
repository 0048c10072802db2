#include "longhaul/run/session.h"

#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"

namespace longhaul::run {

Session::Session(const Job& job, Simulation& simulation, const RunFolder* folder,
                 Progress::Style style, std::function<bool(Round)> stop)
    : job_(job),
      simulation_(simulation),
      folder_(folder),
      progress_(style, job.job.name),
      stop_(std::move(stop)) {
  sim::Observer observer;
  observer.on_report = [this](Time at, Rank rank, Round round, const Evaluation& evaluation) {
    scored(at, rank, round, evaluation);
  };
  observer.on_record = [this](Time at, Rank rank, const Record& record) {
    const std::pair<std::string_view, double> values[] = {{"value", record.value}};
    write(at, rank, record.round, record.name, values);
  };
  observer.on_bad_message = [this](Time, Rank to, Rank from, const Error& error) {
    progress_.note("rank " + std::to_string(to) + " refused a message of rank " +
                   std::to_string(from) + ": " + error.what);
  };
  observer.on_lost = [this](Time, Rank rank, const std::string& why) {
    progress_.note("rank " + std::to_string(rank) + " is lost: " + why);
  };
  simulation_.world().observe(std::move(observer));
}

Status Session::open_metrics(std::uint64_t keep) {
  if (!folder_) return Ok{};
  auto metrics = MetricsFile::open(folder_->file("metrics.jsonl"), keep);
  if (!metrics) return metrics.error();
  metrics_ = std::move(*metrics);
  return Ok{};
}

Status Session::resume() {
  auto newest = Checkpoints(folder_->checkpoints()).newest();
  if (!newest) return newest.error();
  if (!*newest) {
    progress_.note(job_.job.name + ": no checkpoint yet; starts from the beginning");
    return open_metrics(0);
  }
  const Checkpoint& checkpoint = **newest;
  if (checkpoint.job_hash != job_hash(job_))
    return invalid(folder_->checkpoints() + ": of another job; start again with --force");
  Archive saved(checkpoint.world);
  simulation_.world().state(saved);
  LH_TRY(saved.finish());
  Archive counted(checkpoint.experiment);
  counted(counted_);
  LH_TRY(counted.finish());
  real_before_ = counted_.real_s;
  checkpointed_ = checkpoint.round;
  progress_.note(job_.job.name + ": goes on after round " + std::to_string(checkpoint.round));
  return open_metrics(checkpoint.metrics_bytes);
}

double Session::real_s() const {
  return real_before_ + std::chrono::duration<double>(Clock::now() - begin_).count();
}

void Session::write(Time at, Rank rank, Round round, std::string_view kind,
                    std::span<const std::pair<std::string_view, double>> values) {
  if (metrics_) metrics_->write({at, simulation_.members()[rank].site, rank, round, kind, values});
}

void Session::scored(Time at, Rank rank, Round round, const Evaluation& evaluation) {
  if (!simulation_.scores()) return;
  const std::pair<std::string_view, double> values[] = {{"loss", evaluation.loss},
                                                        {"accuracy", evaluation.accuracy},
                                                        {"samples", double(evaluation.samples)}};
  write(at, rank, round, "score", values);
  counted_.loss = evaluation.loss;
  counted_.accuracy = evaluation.accuracy;
  fresh_score_ = true;
  if (job_.stop.target_accuracy && !counted_.time_to_target_s &&
      evaluation.accuracy >= *job_.stop.target_accuracy)
    counted_.time_to_target_s = exact_seconds(at);
}

Status Session::checkpoint() {
  if (!folder_) return Ok{};
  LH_TRY(metrics_->sync());  // first: a checkpoint never counts bytes that are not there
  counted_.real_s = real_s();
  Archive world, counted;
  simulation_.world().state(world);
  counted(counted_);
  Checkpoint checkpoint{job_hash(job_), simulation_.rounds(), metrics_->bytes(), world.take(),
                        counted.take()};
  checkpointed_ = checkpoint.round;
  return Checkpoints(folder_->checkpoints()).write(checkpoint);
}

Status Session::between_events() {
  const Round rounds = simulation_.rounds();
  const Round every = job_.job.checkpoint_every;
  if (every > 0 && rounds >= checkpointed_ + every) LH_TRY(checkpoint());
  if (++events_ % 8 == 0 || fresh_score_) {
    const sim::World& world = simulation_.world();
    progress_.update({rounds, job_.stop.max_rounds, world.now(), world.counters().wan_bytes,
                      counted_.loss, counted_.accuracy},
                     std::exchange(fresh_score_, false));
  }
  return Ok{};
}

StopReason Session::reason() const {
  if (counted_.time_to_target_s) return StopReason::target;
  if (simulation_.rounds() >= job_.stop.max_rounds) return StopReason::max_rounds;
  const double hours = seconds(simulation_.world().now()) / 3600;
  return job_.stop.max_hours && hours >= *job_.stop.max_hours ? StopReason::max_hours
                                                              : StopReason::max_epochs;
}

// The model and the summary of a run that came to its end by itself.
Status Session::conclude(Summary& summary) {
  auto score = simulation_.score();
  if (!score) return score.error();
  if (*score) {
    summary.final_loss = (**score).loss;
    summary.final_accuracy = (**score).accuracy;
  }
  if (folder_) LH_TRY(simulation_.workload().save(folder_->path(), simulation_.parameters()));
  return Ok{};
}

// The world's own failure ends the run but not the session: it is told in the summary.
Result<std::optional<Error>> Session::drive() {
  const InterruptGuard guard;
  while (!interrupted() && !(stop_ && stop_(simulation_.rounds()))) {
    Result<bool> more = simulation_.world().step();
    if (!more) return std::optional(more.error());
    if (!*more) return std::optional<Error>();
    LH_TRY(between_events());
  }
  LH_TRY(checkpoint());
  return std::optional<Error>();
}

Result<Summary> Session::run() {
  if (!metrics_) LH_TRY(open_metrics(0));
  Result<std::optional<Error>> failure = drive();
  if (!failure) return failure.error();
  const sim::World& world = simulation_.world();
  Summary summary = summary_of(job_);
  summary.final_loss = counted_.loss;
  summary.final_accuracy = counted_.accuracy;
  summary.rounds = simulation_.rounds();
  summary.time_s = exact_seconds(world.now());
  summary.time_to_target_s = counted_.time_to_target_s;
  summary.wan_bytes = world.counters().wan_bytes;
  summary.wan_messages = world.counters().wan_messages;
  summary.compute_utilisation = world.compute_utilisation();
  if (const std::optional<Error>& error = *failure) {
    const bool diverged = error->kind == Error::Kind::not_finite;
    summary.stop_reason = diverged ? StopReason::diverged : StopReason::failed;
    summary.failure = error->what;
  } else if (!world.finished()) {
    summary.stop_reason = StopReason::interrupted;
    summary.params_hash = simulation_.parameters_hash();
  } else {
    summary.stop_reason = reason();
    summary.params_hash = simulation_.parameters_hash();
    LH_TRY(conclude(summary));
  }
  summary.real_s = real_s();
  if (metrics_) LH_TRY(metrics_->sync());
  if (folder_)
    LH_TRY(write_atomically(folder_->file("summary.json"), to_json(summary).dump(2) + "\n"));
  return summary;
}

}  // namespace longhaul::run
