#include "longhaul/run/site.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/core/kept_values.h"
#include "longhaul/net/event_loop.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/checkpoint.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/node_activity.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/recording.h"
#include "longhaul/run/run_log.h"
#include "longhaul/run/sockets.h"
#include "longhaul/run/status_file.h"
#include "longhaul/run/step_times.h"

namespace longhaul::run {
namespace {

constexpr int kMostTurns = 16;  // between resuming and rejoining, as the others stop and begin

// One run of one node.
class Site {
 public:
  static Result<std::unique_ptr<Site>> make(const Job&, const SiteOptions&, NodeSockets);
  Result<Summary> run();
  // The run goes on without this process, and lets its node rejoin.
  bool left_out() const { return loop_->left_out(); }
  bool must_resume() const { return loop_->must_resume(); }
  void note(const std::string& text) { log_->note(text); }

 private:
  Site(const Job& job, const SiteOptions& options, Workload workload)
      : job_(job),
        options_(options),
        workload_(std::move(workload)),
        models_(job_, workload_, options_.folder) {}
  Status build(NodeSockets);
  net::EventLoop::Observer observer();
  Result<net::PeersConfig> peers_of(NodeSockets) const;
  std::uint64_t live(const View&) const;
  void note_samples(const View&);
  std::optional<BestScore> best_before() const;
  Result<net::CheckpointConfig> checkpoints(bool lets_return);
  net::Pace::Duration pace() const;
  std::function<Status()> save(std::uint64_t number, Buffer state);
  Result<Buffer> load(std::uint64_t number);
  void progress();
  void tell_status(bool ended);
  Result<Summary> summary(const Status&);
  Status conclude(Summary&);
  Status keep_summary(const Summary&, bool ended);
  std::span<const float> params() const {
    return learner_ ? learner_->params() : std::span<const float>{};
  }

  const Job& job_;
  const SiteOptions options_;
  Workload workload_;
  ModelFiles models_;
  Workload::Score score_;
  std::shared_ptr<const Members> members_;
  std::vector<bool> lost_;  // by rank, as the view has it
  std::unique_ptr<Learner> learner_;
  std::optional<RunFolder> folder_;
  std::uint64_t newest_ = 0;  // checkpoint there
  bool had_summary_ = false;  // of an earlier session
  std::optional<RunLog> log_;
  std::optional<StatusFile> status_;
  std::unique_ptr<net::EventLoop> loop_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<NodeActivity> activity_;  // if there is a folder
};

Result<std::unique_ptr<Site>> Site::make(const Job& job, const SiteOptions& options,
                                         NodeSockets sockets) {
  const bool writes = !options.folder.empty();
  if (writes) LH_TRY(RunFolder::check(options.folder, job, options.existing));
  if (options.rejoin && !entry_with(*job.sync.entry, job.sync.settings).traits.lets_return)
    return invalid(fmt::format(
        "{}: [sync] kind = \"{}\" does not let a lost site return: end the others and start all "
        "with --resume",
        job.file, job.sync.entry->name));
  auto workload = Workload::load(job, /*numbers=*/true, options.learners);
  if (!workload) return workload.error();
  if (workload->phantom())
    return invalid(job.file +
                   ": [model] kind = \"phantom\" has no numbers to send: it is for "
                   "simulate only");
  LH_TRY(fits_frames(job, options.faults_are_made));
  std::unique_ptr<Site> site(new Site(job, options, *std::move(workload)));
  LH_TRY(site->build(std::move(sockets)));
  return site;
}

Result<net::CheckpointConfig> Site::checkpoints(bool lets_return) {
  net::CheckpointConfig config;
  config.load = [this](std::uint64_t number) { return load(number); };
  if (!folder_) return config;
  config.every = job_.job.checkpoint_every;
  config.last_round = job_.stop.max_rounds;
  config.save = [this](std::uint64_t number, Buffer state) {
    return save(number, std::move(state));
  };
  if (options_.rejoin || options_.existing != ExistingFolder::resume) return config;
  auto newest = Checkpoints(folder_->checkpoints()).newest();
  if (newest && *newest && (**newest).job_hash != resume_hash(job_, (**newest).sites))
    return invalid(folder_->checkpoints() + ": of another job; start again with --force");
  if (!newest) return newest.error();
  if (*newest && (**newest).members < members_->size() && !lets_return)
    return invalid(fmt::format(
        "{}: of {} nodes, the job has {}: with [sync] kind = \"{}\" a run that has begun gets no "
        "sites; take the new ones out, or start all sites with --force to begin anew",
        folder_->checkpoints(), (**newest).members, members_->size(), job_.sync.entry->name));
  if (*newest) config.newest = newest_ = (**newest).round;
  if (*newest) config.live = (**newest).live;
  if (*newest) config.members = (**newest).members;
  return config;
}

net::Pace::Duration Site::pace() const {
  if (!job_.net.pace) return {};
  return [rank = options_.rank,
          times = std::shared_ptr<const sim::ComputeTime>(step_times(job_, *members_))](
             std::uint64_t step, Time at, const Work& work) {
    return times->duration(rank, step, at, work);
  };
}

// The log's state now, with the node's; written by the task.
std::function<Status()> Site::save(std::uint64_t number, Buffer state) {
  auto [bytes, sync] = log_->sync_later();
  Archive counted;
  log_->state(counted);
  return [sync = std::move(sync), folder = folder_->checkpoints(), kept = job_.job.keep_checkpoints,
          checkpoint = Checkpoint{.job_hash = resume_hash(job_, job_.sites.size()),
                                  .round = number,
                                  .metrics_bytes = bytes,
                                  .world = std::move(state),
                                  .experiment = counted.take(),
                                  .live = std::uint32_t(node_->view().live.size()),
                                  .sites = std::uint32_t(job_.sites.size()),
                                  .members = std::uint32_t(members_->size()),
                                  .model = whole_model(learner_.get(), params())}]() -> Status {
    LH_TRY(sync());  // first: a checkpoint never counts bytes that are not there
    return Checkpoints(folder, kept).write(checkpoint);
  };
}

Result<Buffer> Site::load(std::uint64_t number) {
  if (!folder_ || options_.existing != ExistingFolder::resume) {
    LH_TRY(log_->open(0));
    return Buffer{};
  }
  const Checkpoints checkpoints(folder_->checkpoints());
  if (newest_ > number + 1)  // those of an honest run are never further apart
    return unavailable(
        fmt::format("{}: this node has checkpoint {}, but another can only resume from {}: was a "
                    "site started without --resume, or in another folder?",
                    folder_->path(), newest_, number));
  if (number == 0) {
    log_->note("not all nodes have a checkpoint; starts from the beginning");
    checkpoints.drop_after(0);
    LH_TRY(log_->open(0));
    return Buffer{};
  }
  auto checkpoint = checkpoints.at(number);
  if (!checkpoint) return checkpoint.error();
  checkpoints.drop_after(number);
  Archive counted(checkpoint->experiment);
  log_->state(counted);
  LH_TRY(counted.finish());
  models_.resume(log_->best());
  LH_TRY(log_->open(checkpoint->metrics_bytes));
  log_->note(fmt::format("resumes from checkpoint {}", number));
  return std::move(checkpoint->world);
}

net::EventLoop::Observer Site::observer() {
  const Rank self = options_.rank;
  return {.on_report = [this, self](Time at, Round round,
                                    const Evaluation& e) { log_->scored(at, self, round, e); },
          .on_record = [this, self](Time at, const Record& r) { log_->recorded(at, self, r); },
          .on_note = [this](const std::string& text) { log_->note(text); },
          .on_view =
              [this, self](Time at, const View& view) {
                note_samples(view);
                log_->view(at, self, live(view));
                if (activity_) activity_->view(at, view);
              },
          .on_tick = [this] { progress(); },
          .stop = [this] { return interrupted() || !log_->low_participation().empty(); }};
}

Status Site::build(NodeSockets node_sockets) {
  auto thread_setup = workload_.set_up_threads();
  if (!thread_setup) return thread_setup.error();
  Members members = job_.members();
  members[options_.rank].incarnation = options_.rejoin ? 1 : 0;
  members_ = std::make_shared<const Members>(std::move(members));
  lost_.resize(members_->size());
  if ((*members_)[options_.rank].is(Role::worker)) {
    const std::uint32_t lanes = threads_of_lanes(job_);
    if (lanes > 0 && options_.record)
      return invalid("--record: a run with [sync] lane_threads = true cannot be replayed");
    auto made = lanes > 0 ? workload_.make_lanes(options_.rank, lanes)
                          : workload_.make_learner(options_.rank);
    if (!made) return made.error();
    learner_ = *std::move(made);
  }
  auto score = workload_.make_scorer(1);
  if (!score) return score.error();
  score_ = models_.keeping_best(*std::move(score));
  const Place place = place_of(job_, options_.rank, members_, workload_.layout(), false);
  auto strategy = build_socket_strategy(job_, place, workload_.training_samples());
  if (!strategy) return strategy.error();
  if (!options_.folder.empty()) {
    auto opened = RunFolder::open(options_.folder, job_, options_.existing);
    if (!opened) return opened.error();
    folder_ = *std::move(opened);
    had_summary_ = std::filesystem::exists(folder_->file("summary.json"));
    status_.emplace(folder_->path());
  }
  log_.emplace(job_, *members_, folder_ ? &*folder_ : nullptr, options_.progress, bool(score_),
               /*is_virtual=*/false);
  auto kept = checkpoints((*strategy)->lets_return());
  if (!kept) return kept.error();
  auto peers = peers_of(std::move(node_sockets));
  if (!peers) return peers.error();
  loop_ = std::make_unique<net::EventLoop>(
      net::EventLoopConfig{*std::move(peers), *std::move(kept), *std::move(thread_setup), pace()},
      place, learner_.get(), score_, observer());
  node_ = std::make_unique<Node>(place, *std::move(strategy), learner_.get(), *loop_);
  if (!folder_) return Ok{};
  if (options_.record) {
    auto recording = Recording::open(folder_->path(), job_, workload_, place, *options_.record);
    if (!recording) return recording.error();
    recording_ = *std::move(recording);
  }
  activity_ = std::make_unique<NodeActivity>(folder_->path(), *members_, options_.rank,
                                             recording_ ? recording_->tap() : nullptr);
  node_->tap(activity_.get());
  return Ok{};
}

Result<net::PeersConfig> Site::peers_of(NodeSockets sockets) const {
  auto bind = bind_of(job_, options_.rank);
  if (!bind) return bind.error();
  // A copy: this node may need the socket again, to rejoin.
  if (sockets.listening >= 0) sockets.listening = ::dup(sockets.listening);
  net::PeersConfig config = peers_config(job_, options_.rank, std::move(sockets), job_hash(job_));
  if (*bind) {
    auto address = net::parse_address(**bind);
    if (!address) return address.error();
    config.bind = *std::move(address);
  }
  return config;
}

std::uint64_t Site::live(const View& view) const {
  return std::uint64_t(std::count_if(view.live.begin(), view.live.end(), [this](Rank rank) {
    return members_->at(rank).is(Role::worker);
  }));
}

// What the ledger of samples has to know of the others.
void Site::note_samples(const View& view) {
  for (Rank rank = 0; rank < lost_.size(); ++rank) {
    const bool is_lost = rank != options_.rank && !view.has(rank);
    if (is_lost == lost_[rank]) continue;
    lost_[rank] = is_lost;
    is_lost ? log_->node_lost(rank) : log_->node_returned(rank);
  }
}

void Site::progress() {
  const auto counters = loop_->counters();
  log_->progress(node_->strategy().rounds_done(), counters.time, counters.wan_bytes);
  if (status_ && status_->due()) tell_status(/*ended=*/false);
  if (activity_) activity_->write_if_due(counters.time);
  if (const auto kept = models_.kept_best()) log_->wrote("the best model", *kept);
}

void Site::tell_status(bool ended) {
  const Member& me = (*members_)[options_.rank];
  net::EventLoop::Doing doing;
  if (!ended) doing = loop_->doing();
  NodeStatus status{.site = me.site,
                    .rank = options_.rank,
                    .state = ended ? "ended" : doing.state,
                    .waits_for = doing.waits_for,
                    .rounds = node_->strategy().rounds_done(),
                    .max_rounds = job_.stop.max_rounds,
                    .time_s = seconds(loop_->counters().time),
                    .members = log_->participation().members,
                    .live = log_->participation().live};
  for (const auto& [peer, since] : doing.silent)
    status.silent.push_back(
        {fmt::format("rank {} ({})", peer, members_->at(peer).site), seconds(since)});
  status_->write(std::move(status));
}

// Of the incarnation before, by its newest checkpoint: best.pt is of that score.
std::optional<BestScore> Site::best_before() const {
  if (!folder_) return std::nullopt;
  const auto newest = Checkpoints(folder_->checkpoints()).newest();
  if (!newest || !*newest) return std::nullopt;
  RunLog before(job_, *members_, nullptr, Progress::Style::quiet, bool(score_),
                /*is_virtual=*/false);
  Archive counted((**newest).experiment);
  before.state(counted);
  return counted.finish() ? before.best() : std::nullopt;
}

Result<Summary> Site::run() {
  const InterruptGuard guard;
  if (options_.rejoin) {
    log_->take_up_samples(options_.rank);
    LH_TRY(log_->open(folder_ ? whole_lines(folder_->file("metrics.jsonl")) : 0));
    models_.resume(best_before());
  }
  const Status ended = loop_->run(*node_);
  // An Error, not the end of a run: its summary stays, and nobody starts this node again.
  if (loop_->cannot_go_on()) return ended.error();
  auto done = summary(ended);
  if (status_) tell_status(/*ended=*/true);
  if (activity_) activity_->write(loop_->counters().time);
  if (recording_ && done) LH_TRY(recording_->finish());
  return done;
}

Result<Summary> Site::summary(const Status& ended) {
  const net::EventLoop::Counters counters = loop_->counters();
  Summary summary = summary_of(job_);
  log_->fill(summary);
  summary.rounds = node_->strategy().rounds_done();
  summary.time_s = exact_seconds(counters.time);
  summary.wan_bytes = counters.wan_bytes;
  summary.wan_messages = counters.wan_messages;
  if (counters.time > Time{0})
    summary.compute_utilisation = seconds(counters.computing) / seconds(counters.time);
  if (job_.net.pace) summary.pace = {counters.pace.steps, counters.pace.overruns};
  summary.params_hash = params_hash(params());
  if (!ended) {
    const Error& error = ended.error();
    const std::string& few = log_->low_participation();
    summary.stop_reason = interrupted()                           ? StopReason::interrupted
                          : !few.empty()                          ? StopReason::participation
                          : error.kind == Error::Kind::not_finite ? StopReason::diverged
                                                                  : StopReason::failed;
    if (!interrupted()) summary.failure = few.empty() ? error.what : few;
  } else {
    summary.stop_reason = stop_reason(job_, log_->reached_target(), summary.rounds, counters.time);
    note_divergence(node_->strategy(), summary);
    LH_TRY(conclude(summary));
  }
  // Also of a session that was stopped; not of one that has never begun.
  if (learner_ && folder_ && counters.time > Time{0} && summary.stop_reason != StopReason::diverged)
    LH_TRY(models_.end(whole_model(learner_.get(), params()), log_->reached_target()));
  summary.model_is_best = log_->reached_target() && models_.has_best();
  summary.real_s = log_->real_s();
  if (const auto written = log_->sync(); !written) LH_TRY(kept_at_the_end(written.error()));
  LH_TRY(keep_summary(summary, bool(ended)));
  return summary;
}

// A session that could not begin leaves the summary of the one before.
Status Site::keep_summary(const Summary& summary, bool ended) {
  if (!folder_ || (!ended && had_summary_ && loop_->counters().time == Time{0})) return Ok{};
  return kept_at_the_end(
      write_atomically(folder_->file("summary.json"), to_json(summary).dump(2) + "\n"));
}

// What the model of a run is worth that came to its end by itself.
Status Site::conclude(Summary& summary) {
  if (!learner_ || !score_) return Ok{};
  auto evaluation = score_(whole_model(learner_.get(), params()));
  if (!evaluation) return evaluation.error();
  log_->concluded(loop_->counters().time, options_.rank, summary.rounds, *evaluation);
  log_->fill(summary);
  summary.final_loss = evaluation->loss;
  summary.final_accuracy = evaluation->accuracy;
  if (log_->reached_target() && summary.stop_reason != StopReason::diverged)
    summary.stop_reason = StopReason::target;
  return Ok{};
}

}  // namespace

Result<Summary> run_site(const Job& job, const SiteOptions& options) {
  LH_TRY(fits_frames(
      job, options.faults_are_made));  // the job's own mistakes before those of keys and addresses
  auto sockets =
      node_sockets(job, options.rank, options.addresses, options.listening, options.security);
  if (!sockets) return sockets.error();
  if (const std::string name = job.members()[options.rank].site; job.leaves_out(name)) {
    Progress(options.progress, job.job.name)
        .note(name + ": [run] without leaves this site out; the others go on without it");
    return summary_of(job);
  }
  SiteOptions now = options;
  if (options.existing != ExistingFolder::force && !options.folder.empty()) {
    auto over = nothing_left(options.folder, job);
    if (!over) return over.error();
    if (*over) {
      Progress(options.progress, job.job.name)
          .note(options.folder + ": this run is over already; --force begins anew");
      return **over;
    }
  }
  for (int turns = 0;; ++turns) {
    now.existing = RunFolder::resolve(options.folder, now.existing);
    auto site = Site::make(job, now, *sockets);
    if (!site) return site.error();
    auto summary = (*site)->run();
    // The others say so: rejoin with a new incarnation, or, as they have stopped since, resume.
    const bool rejoins = (*site)->left_out() && !now.rejoin;
    const bool resumes = (*site)->must_resume() && now.rejoin && !options.rejoin;
    if ((!rejoins && !resumes) || turns == kMostTurns) return summary;
    (*site)->note((summary ? summary->failure : summary.error().what) +
                  (rejoins ? "; asks to rejoin" : "; resumes"));
    now.rejoin = rejoins;
    now.existing = ExistingFolder::resume_or_begin;
  }
}

}  // namespace longhaul::run
