#include "longhaul/run/site_session.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/core/kept_values.h"
#include "longhaul/net/event_loop.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/checkpoint.h"
#include "longhaul/run/inputs.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/met_facts.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/node_activity.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/recording.h"
#include "longhaul/run/run_log.h"
#include "longhaul/run/site_status.h"
#include "longhaul/run/sockets.h"
#include "longhaul/run/status_file.h"
#include "longhaul/run/step_times.h"
#include "longhaul/run/votes_file.h"

namespace longhaul::run {
Result<std::unique_ptr<SiteSession>> SiteSession::make(const Job& job, const SiteOptions& options,
                                                       NodeSockets sockets) {
  const bool writes = !options.folder.empty();
  if (writes) LH_TRY(RunFolder::check(options.folder, job, options.existing));
  if (writes && options.existing != ExistingFolder::force)
    LH_TRY(is_folder_of(options.folder, job.members(), options.rank));
  if (options.rejoin && !entry_with(*job.sync.entry, job.sync.settings).traits.lets_return)
    return invalid(fmt::format(
        "{}: [sync] kind = \"{}\" does not let a lost site return: end the others and start all "
        "with --resume",
        job.file, job.sync.entry->name));
  auto workload = Workload::load(job, /*numbers=*/true, options.learners, options.rank);
  if (!workload) return workload.error();
  if (workload->phantom())
    return invalid(job.file +
                   ": [model] kind = \"phantom\" has no numbers to send: it is for "
                   "simulate only");
  LH_TRY(fits_frames(job, options.faults_are_made));
  std::unique_ptr<SiteSession> site(new SiteSession(job, options, *std::move(workload)));
  if (const Status built = site->build(std::move(sockets)); !built) {
    site->discard_folder();
    return built.error();
  }
  return site;
}

Result<net::CheckpointConfig> SiteSession::checkpoints(bool lets_return) {
  net::CheckpointConfig config;
  config.load = [this](std::uint64_t number) { return load(number); };
  if (!folder_) return config;
  config.every = job_.job.checkpoint_every;
  config.stop_within = from_seconds(job_.net.stop_within_s);
  config.last_round = job_.stop.max_rounds;
  config.save = [this](std::uint64_t number, Buffer state) {
    return save(number, std::move(state));
  };
  if (options_.rejoin || options_.existing != ExistingFolder::resume) return config;
  auto newest = Checkpoints(folder_->checkpoints()).newest();
  if (newest && *newest && (**newest).job_hash != resume_hash(job_, (**newest).sites))
    return invalid(folder_->checkpoints() + ": of another job; start again with --force");
  if (!newest)
    return malformed(fmt::format(
        "{}; rename the folder {} and start this site again: the others keep theirs, {}",
        newest.error().what, folder_->path(),
        lets_return ? "resume without it, and give it their state when it returns"
                    : fmt::format("but [sync] kind = \"{}\" takes no lost site back: a run that "
                                  "needs this site begins anew, with --force at all sites",
                                  job_.sync.entry->name)));
  if (*newest && (**newest).members < members_->size() && !lets_return)
    return invalid(fmt::format(
        "{}: of {} nodes, the job has {}: with [sync] kind = \"{}\" a run that has begun gets no "
        "sites; take the new ones out, or start all sites with --force to begin anew",
        folder_->checkpoints(), (**newest).members, members_->size(), job_.sync.entry->name));
  if (*newest) config.newest = newest_ = (**newest).round;
  if (*newest) config.view = std::move((**newest).view);
  if (*newest)
    config.has_before = newest_ == 1 || Checkpoints(folder_->checkpoints()).at(newest_ - 1);
  if (*newest) config.members = (**newest).members;
  return config;
}

net::Pace::Duration SiteSession::pace() const {
  if (!job_.net.pace) return {};
  return [rank = options_.rank,
          times = std::shared_ptr<const sim::ComputeTime>(step_times(job_, *members_))](
             std::uint64_t step, Time at, const Work& work) {
    return times->duration(rank, step, at, work);
  };
}

// The log's state now, with the node's; written by the task.
std::function<Status()> SiteSession::save(std::uint64_t number, Buffer state) {
  auto [bytes, sync] = log_->sync_later();
  Archive counted;
  log_->state(counted);
  activity_->state(counted);
  return [sync = std::move(sync), folder = folder_->checkpoints(), kept = job_.job.keep_checkpoints,
          checkpoint = Checkpoint{.job_hash = resume_hash(job_, job_.sites.size()),
                                  .round = number,
                                  .metrics_bytes = bytes,
                                  .world = std::move(state),
                                  .experiment = counted.take(),
                                  .view = node_->view(),
                                  .sites = std::uint32_t(job_.sites.size()),
                                  .members = std::uint32_t(members_->size()),
                                  .model = whole_model(learner_.get(), params())}]() -> Status {
    LH_TRY(sync());  // first: a checkpoint never counts bytes that are not there
    return Checkpoints(folder, kept).write(checkpoint);
  };
}

Result<Buffer> SiteSession::load(std::uint64_t number) {
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
    activity_->begin_anew();
    checkpoints.drop_after(0);
    LH_TRY(log_->open(0));
    return Buffer{};
  }
  auto checkpoint = checkpoints.at(number);
  if (!checkpoint) return checkpoint.error();
  checkpoints.drop_after(number);
  Archive counted(checkpoint->experiment);
  log_->state(counted);
  activity_->state(counted);
  LH_TRY(counted.finish());
  models_.resume(log_->best());
  LH_TRY(log_->open(checkpoint->metrics_bytes));
  log_->note(fmt::format("resumes from checkpoint {}", number));
  return std::move(checkpoint->world);
}

net::EventLoop::Observer SiteSession::observer() {
  const Rank self = options_.rank;
  return {.on_report =
              [this, self](Time at, Round round, const Snapshot& model, const Evaluation& e) {
                if (!workload_.own_tests()) return log_->scored(at, self, round, e);
                if (round != ScoreSum::kAtEnd) log_->scored_part(at, self, round, e);
                models_.reported(round, model);
              },
          .on_score =
              [this](Time at, Rank from, Round round, const Evaluation& e) {
                log_->scored(at, from, round, e);
                if (workload_.own_tests()) models_.summed(round, e);
              },
          .on_record =
              [this, self](Time at, const Record& r) {
                log_->recorded(at, self, r);
                if (r.name == "update_norm") loop_->tell_contributed(r.round, r.value);
                warn_others();
              },
          .on_contributed =
              [this](Rank from, Round round, double norm) {
                log_->contributed(from, round, norm);
                warn_others();
              },
          .on_warning = [this](const std::string& text) { log_->warn(text), ++warned_; },
          .on_note = [this](const std::string& text) { log_->note(text); },
          .on_view =
              [this, self](Time at, const View& view) {
                note_samples(view);
                log_->view(at, self, node_->strategy().rounds_done(), live(view));
                if (activity_) activity_->view(at, view);
              },
          .on_tick = [this] { progress(); },
          .checkpoint =
              [this] {
                const bool asked = requests_.take();
                return log_->take_restored() || asked;  // the older ones went with it
              },
          .stop = [this] { return interrupted() || !log_->low_participation().empty(); }};
}

Status SiteSession::build(NodeSockets node_sockets) {
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
  std::optional<NodeStatus> before;  // of an earlier process of this node
  if (!options_.folder.empty()) {
    auto opened = RunFolder::open(options_.folder, job_, options_.existing);
    if (!opened) return opened.error();
    folder_ = *std::move(opened);
    had_summary_ = std::filesystem::exists(folder_->file("summary.json"));
    before = read_status(folder_->path());
    status_.emplace(folder_->path());
  }
  log_.emplace(job_, *members_, folder_ ? &*folder_ : nullptr, options_.progress,
               workload_.scores(), /*is_virtual=*/false);
  auto kept = checkpoints(entry_with(*job_.sync.entry, job_.sync.settings).traits.lets_return);
  if (!kept) return kept.error();
  auto peers = peers_of(std::move(node_sockets));
  if (!peers) return peers.error();
  auto votes = folder_ ? read_own_votes(folder_->path(), *members_, options_.rank)
                       : std::optional<net::KeptVotes>{};
  if (!votes) return votes.error();
  loop_ = std::make_unique<net::EventLoop>(
      net::EventLoopConfig{
          .peers = *std::move(peers),
          .checkpoints = *std::move(kept),
          .votes = *std::move(votes),
          .keep = folder_ ? keeps_votes(folder_->path()) : nullptr,
          .on_thread_start = *std::move(thread_setup),
          .step_time = pace(),
          .model_digest = models_are_equal(job_) && learner_
                              ? std::function<std::uint64_t()>([this] { return digest(params()); })
                              : nullptr},
      place_of(job_, options_.rank, members_, workload_.layout(), false), learner_.get(),
      [this](std::span<const float> model) {
        return score_ ? score_(options_.rank, model) : Result<Evaluation>(Evaluation{});
      },
      observer());
  if (before) loop_->count_on(counters_of(*before));
  return workload_.meets() ? Status(Ok{}) : prepare();
}

// The node; what it is made of may have to be told by others.
Status SiteSession::prepare() {
  auto score = workload_.make_node_scorer(1);
  if (!score) return score.error();
  score_ = *std::move(score);
  if (!workload_.own_tests()) score_ = models_.keeping_best(std::move(score_));
  const Place place = place_of(job_, options_.rank, members_, workload_.layout(), false);
  auto strategy = build_socket_strategy(job_, place, workload_.training_samples());
  if (!strategy) return strategy.error();
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

// Hears what data the others have, and says what this site has. The run folder keeps it: whoever
// comes back may need that of sites which are lost.
Status SiteSession::meet() {
  LH_TRY(loop_->meet());
  if (const Status alike = run::meet(workload_, *members_, loop_->words()); !alike) {
    loop_->part(alike.error());
    return alike;
  }
  if (const auto& own = workload_.facts())
    log_->note(
        fmt::format("{}: {} samples to train with, {} to test with{}; all sites train with {}",
                    members_->at(options_.rank).site, own->training, own->test,
                    own->dropped > 0 ? fmt::format(", {} left out", own->dropped) : "",
                    workload_.training_samples()));
  for (const std::string& text : workload_.warnings()) log_->warn(text);  // all find the same
  warned_ = log_->warnings().size();
  facts_ = Facts::unwritten;
  log_->wrote("facts.bin", keep_facts());
  return Ok{};
}

// Again if they are not there: the disk was full, or the folder was removed.
Status SiteSession::keep_facts() {
  if (!folder_ || facts_ == Facts::none) return Ok{};
  std::error_code code;
  if (facts_ == Facts::written && std::filesystem::exists(folder_->file("facts.bin"), code))
    return Ok{};
  MetFacts facts{.self = options_.rank, .said = {}};
  for (const auto& [rank, words] : loop_->words()) facts.said.all.push_back({rank, words});
  Status written = write_facts(folder_->path(), facts);
  facts_ = written ? Facts::written : Facts::unwritten;
  return written;
}

// The own first: they may have changed.
net::Words SiteSession::words() const {
  net::Words words;
  if (!workload_.meets()) return words;
  const Buffer own = to_wire(workload_.facts().value_or(learn::TableFacts{}));
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(own.data());
  words[options_.rank].assign(bytes, bytes + own.size());
  if (!folder_ || (!options_.rejoin && options_.existing != ExistingFolder::resume)) return words;
  if (const auto kept = read_facts(folder_->path()))
    for (auto& [rank, said] : kept->words())
      if (rank < members_->size()) words.try_emplace(rank, said);
  return words;
}

Result<net::PeersConfig> SiteSession::peers_of(NodeSockets sockets) const {
  // A copy: this node may need the socket again, to rejoin.
  if (sockets.listening >= 0) sockets.listening = ::dup(sockets.listening);
  net::PeersConfig config = peers_config(job_, options_.rank, std::move(sockets), job_hash(job_));
  // Whoever insists on rejoining waits for a run as others for their peers.
  if (options_.insists) config.nothing_to_rejoin = 2 * config.connect_timeout;
  config.inputs = shared_inputs(workload_, learner_.get());
  config.words = words();
  if (const auto own = config.words.find(options_.rank);
      own != config.words.end() && own->second.size() > net::kMaxIntroductionBytes / 2)
    return invalid(fmt::format(
        "site {}: what the sites exchange of its data takes {} bytes, at most {} are allowed: "
        "leave "
        "columns out with [data] ignore, or have fewer classes",
        members_->at(options_.rank).site, own->second.size(), net::kMaxIntroductionBytes / 2));
  return config;
}

// What this node has found out.
void SiteSession::warn_others() {
  for (; warned_ < log_->warnings().size(); ++warned_) loop_->warn_all(log_->warnings()[warned_]);
}

std::uint64_t SiteSession::live(const View& view) const {
  return std::uint64_t(std::count_if(view.live.begin(), view.live.end(), [this](Rank rank) {
    return members_->at(rank).is(Role::worker);
  }));
}

// What the ledger of samples has to know of the others.
void SiteSession::note_samples(const View& view) {
  for (Rank rank = 0; rank < lost_.size(); ++rank) {
    const bool is_lost = rank != options_.rank && !view.has(rank);
    if (is_lost == lost_[rank]) continue;
    lost_[rank] = is_lost;
    is_lost ? log_->node_lost(rank) : log_->node_returned(rank);
  }
}

void SiteSession::progress() {
  const auto counters = loop_->counters();
  const NodeStatus now = status(/*ended=*/false);
  log_->progress(now.rounds, counters.time, counters.wan_bytes, now.waits_for, now.waited_s);
  if (status_ && status_->due()) {
    status_->write(now);
    log_->wrote("facts.bin", keep_facts());
  }
  if (activity_) activity_->write_if_due(counters.time);
  if (const auto kept = models_.look()) log_->wrote("the best model", *kept);
}

void SiteSession::compare_ends() {
  for (const auto& [rank, model] : loop_->ends())
    if (learner_ && models_are_equal(job_) && model != digest(params()))
      log_->warn(fmt::format("{} has ended with another model than {}: their params_hash differ",
                             node_name(members_->at(rank)),
                             node_name(members_->at(options_.rank))));
}

NodeStatus SiteSession::status(bool ended) {
  NodeStatus status = site_status(*members_, options_.rank, *loop_, ended);
  status.rounds = node_ ? node_->strategy().rounds_done() : 0;
  status.max_rounds = job_.stop.max_rounds;
  status.members = log_->participation().members;
  status.live = log_->participation().live;
  status.waited_s = wait_clock_.waited_s(status);
  return status;
}

// Of the incarnation before, by its newest checkpoint: best.pt is of that score.
std::optional<BestScore> SiteSession::best_before() const {
  if (!folder_) return std::nullopt;
  const auto newest = Checkpoints(folder_->checkpoints()).newest();
  if (!newest || !*newest) return std::nullopt;
  RunLog before(job_, *members_, nullptr, Progress::Style::quiet, bool(score_),
                /*is_virtual=*/false);
  Archive counted((**newest).experiment);
  before.state(counted);
  return counted.failed() ? std::nullopt : before.best();
}

Result<Summary> SiteSession::run() {
  const InterruptGuard guard;
  if (options_.rejoin) {
    log_->take_up_samples(options_.rank);
    LH_TRY(log_->open(folder_ ? whole_lines(folder_->file("metrics.jsonl")) : 0));
    models_.resume(best_before());
  }
  Status ended = Ok{};
  if (workload_.meets()) ended = meet();
  if (workload_.meets() && ended) ended = prepare();
  if (ended) ended = loop_->run(*node_);
  // An Error, not the end of a run: its summary stays, and nobody starts this node again.
  if (loop_->cannot_go_on()) return ended.error();
  if (!loop_->peers().listening()) {
    discard_folder();  // the next start, or a simulation of the job, finds no run there
    return failed_summary(job_, ended.error());
  }
  if (status_) {  // launch waits while this disk is at work
    NodeStatus writes = status(/*ended=*/true);
    writes.state = "writing";
    writes.waits_for = "model and summary";
    status_->write(writes);
  }
  auto done = summary(ended);
  if (status_) status_->write(status(/*ended=*/true));
  if (activity_) activity_->write(loop_->counters().time);
  if (recording_ && done) LH_TRY(recording_->finish());
  return done;
}

Result<Summary> SiteSession::summary(const Status& ended) {
  const net::EventLoop::Counters counters = loop_->counters();
  Summary summary = summary_of(job_);
  log_->fill(summary);
  summary.rounds = node_ ? node_->strategy().rounds_done() : 0;
  summary.time_s = exact_seconds(counters.time);
  summary.wan_bytes = counters.wan_bytes;
  summary.wan_messages = counters.wan_messages;
  if (counters.time > Time{0})
    summary.compute_utilisation = seconds(counters.computing) / seconds(counters.time);
  if (job_.net.pace) summary.pace = {counters.pace.steps, counters.pace.overruns};
  // Of a session that has not begun, or was not let in, they are untrained.
  const bool began = counters.time > Time{0} && !(node_ && node_->outside());
  if (ended || began) summary.params_hash = params_hash(params());
  if (ended) compare_ends();
  summary.warnings = log_->warnings();
  if (!ended) {
    const Error& error = ended.error();
    const std::string& few = log_->low_participation();
    summary.stop_reason = interrupted()  ? StopReason::interrupted
                          : !few.empty() ? StopReason::participation
                                         : stop_reason(error);
    if (!interrupted()) summary.failure = few.empty() ? error.what : few;
  } else {
    summary.stop_reason = stop_reason(job_, log_->reached_target(), summary.rounds, counters.time);
    note_divergence(node_->strategy(), summary);
    LH_TRY(conclude(summary));
  }
  log_->restore_folder();
  LH_TRY(kept_at_the_end(keep_facts()));
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
Status SiteSession::keep_summary(const Summary& summary, bool ended) {
  if (!folder_ || (!ended && had_summary_ && loop_->counters().time == Time{0})) return Ok{};
  return kept_at_the_end(write_atomically(folder_->file("summary.json"), summary_text(summary)));
}

// What the model of a run is worth that came to its end by itself.
Status SiteSession::conclude(Summary& summary) {
  if (workload_.own_tests()) {
    summary.site_scores = site_scores(*members_, node_->scores().at_end());
    return conclude(ScoreSum::sum(node_->scores().at_end()), summary);
  }
  if (!learner_ || !score_) return Ok{};
  auto evaluation = score_(options_.rank, whole_model(learner_.get(), params()));
  if (!evaluation) return evaluation.error();
  return conclude(*evaluation, summary);
}

Status SiteSession::conclude(const Evaluation& evaluation, Summary& summary) {
  log_->concluded(loop_->counters().time, options_.rank, summary.rounds, evaluation);
  log_->fill(summary);
  summary.final_loss = evaluation.loss;
  summary.final_accuracy = evaluation.accuracy;
  if (log_->reached_target() && summary.stop_reason != StopReason::diverged)
    summary.stop_reason = StopReason::target;
  note_divergence(evaluation, summary);
  return Ok{};
}

}  // namespace longhaul::run
