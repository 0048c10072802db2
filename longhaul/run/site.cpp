#include "longhaul/run/site.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "longhaul/core/kept_values.h"
#include "longhaul/core/tap.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/net/event_loop.h"
#include "longhaul/net/hello.h"
#include "longhaul/run/activity.h"
#include "longhaul/run/atomic_file.h"
#include "longhaul/run/checkpoint.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/met_facts.h"
#include "longhaul/run/metrics.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/network.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/recording.h"
#include "longhaul/run/run_log.h"
#include "longhaul/run/status_file.h"
#include "longhaul/run/summary.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {
namespace {

// Returns the status without rounds and live workers, which the loop does not know. `ended`: the
// run has ended.
NodeStatus site_status(const Members& members, Rank self, const net::EventLoop& loop, bool ended) {
  const net::EventLoop::Counters counters = loop.counters();
  net::EventLoop::Doing doing;
  if (!ended) doing = loop.doing();
  std::vector<std::string> awaited;
  for (const Rank rank : doing.awaited) awaited.push_back(node_name(members.at(rank)));
  NodeStatus status{
      .site = members.at(self).site,
      .rank = self,
      .state = ended ? "ended" : doing.state,
      .waits_for = awaited.empty() ? doing.waits_for : names_text(awaited, members.size()),
      .time_s = seconds(counters.time),
      .wan_bytes = counters.wan_bytes,
      .wan_messages = counters.wan_messages,
      .computing_s = seconds(counters.computing)};
  for (const auto& [peer, since] : doing.silent)
    status.silent.push_back(
        {fmt::format("rank {} ({})", peer, members.at(peer).site), seconds(since)});
  return status;
}

// Returns an Error if the folder's status.json belongs to another node.
Status is_folder_of(const std::string& folder, const Members& members, Rank self) {
  const auto before = read_status(folder);
  if (!before || before->site.empty()) return Ok{};
  const Member& me = members.at(self);
  // The rank of a serving node changes when sites are added to the job.
  const bool is_of_site = before->rank < members.size() && members[before->rank].site == me.site;
  if (before->site == me.site && (before->rank == self || !is_of_site)) return Ok{};
  return invalid(fmt::format(
      "{}: is the run folder of site {} (rank {}), and this is site {} (rank {}): choose this "
      "site's own with --out, or start it with --force to begin anew here",
      folder, before->site, before->rank, me.site, self));
}

// Returns the counters of an earlier process of the node, from its status.
net::EventLoop::Counters counters_of(const NodeStatus& status) {
  return {.computing = from_seconds(status.computing_s),
          .wan_bytes = status.wan_bytes,
          .wan_messages = status.wan_messages,
          .pace = {}};
}

// Returns the summary of a run that could not begin.
Summary failed_summary(const Job& job, const Error& why) {
  Summary summary = summary_of(job);
  summary.stop_reason = StopReason::failed;
  summary.failure = why.what;
  return summary;
}

net::SharedInput input(std::string part, std::string text, std::uint64_t digest) {
  return {std::move(part), fmt::format("{}, digest {:016x}", text, digest), digest};
}

net::SharedInput of_set(std::string part, const std::string& path, const learn::DataSet& data) {
  return input(std::move(part), fmt::format("{}, {} samples", path, data.size()),
               learn::digest_of(data));
}

// Adds the start values of an own learner, which no file holds: one input per tensor, or per group
// of neighbouring tensors if there are many.
void add_tensors(const Learner& learner, std::span<const float> values,
                 std::vector<net::SharedInput>& inputs) {
  const std::shared_ptr<const Layout> layout = learner.layout();
  const std::vector<LayerRange>& layers = layout->layers();
  std::string list;
  for (const LayerRange& layer : layers)
    list += fmt::format("{} [{}], ", layer.name, fmt::join(layer.shape, ", "));
  const std::uint64_t names = XXH3_64bits(list.data(), list.size());
  inputs.push_back(input("list of trained tensors",
                         fmt::format("{} tensors, {} numbers", layers.size(), values.size()),
                         names));
  const std::size_t each =
      (layers.size() + Learner::kMostFixedParts - 1) / Learner::kMostFixedParts;
  for (std::size_t i = 0; i < layers.size(); i += each) {
    const LayerRange &first = layers[i], &last = layers[std::min(i + each, layers.size()) - 1];
    const auto part = values.subspan(first.range.offset, last.range.end() - first.range.offset);
    inputs.push_back(input(fmt::format("start value of tensor {}{}{}", first.name,
                                       each > 1 ? " to " : "", each > 1 ? last.name : ""),
                           fmt::format("{} numbers", part.size()),
                           XXH3_64bits_withSeed(part.data(), part.size_bytes(), names)));
  }
}

// Returns the inputs that must be equal at all nodes: start values and frozen tensors of `learner`
// before its first step, and shared data. A null learner: data only. Data made from a seed are not
// listed, because the job defines them.
std::vector<net::SharedInput> shared_inputs(const Workload& workload, Learner* learner) {
  std::vector<net::SharedInput> inputs;
  const std::string path = workload.model_path();
  // The start values of a built-in model with data at the sites are not listed. They follow from
  // the job and the columns, which the sites compare by name when they meet.
  if (learner && workload.is_own()) {
    add_tensors(*learner, learner->params(), inputs);
  } else if (learner && !(path.empty() && workload.meets())) {
    const std::vector<float> start = whole_model(learner, learner->params());
    inputs.push_back(input(
        path.empty() ? "start values of the model" : "[model] path",
        fmt::format("{}{} numbers", path.empty() ? "" : path + ", ", start.size()),
        XXH3_64bits_withSeed(start.data(), start.size() * sizeof(float), workload.code_digest())));
  }
  if (learner)
    for (const Learner::FixedPart& part : learner->fixed_parts())
      inputs.push_back(input("frozen tensor " + part.name, "as it is there", part.digest));
  const auto [train, test] = workload.shared_sets();
  if (train) inputs.push_back(of_set("[data] path", workload.data_paths().first, *train));
  if (test) inputs.push_back(of_set("[data] test_path", workload.data_paths().second, *test));
  return inputs;
}

// activity.json of one node over sockets, like the ActivityLog of a simulated run. A Tap that
// writes the file twice a second, so that a page can follow the run. The reader
// (report/run_reader.cpp) combines the files of a run.
class NodeActivity final : public Tap {
  static constexpr auto kActivityEvery = std::chrono::milliseconds(500);

 public:
  // `next` receives every call of this tap and must outlive it; null if there is none. All calls
  // come from the node's thread. Continues the file of an earlier process, if there is one, until
  // state() or begin_anew() replaces it.
  NodeActivity(const std::string& folder, const Members& members, Rank self, Tap* next)
      : path_(folder + "/activity.json"),
        members_(members),
        self_(self),
        next_(next),
        log_(members, /*wire_scale=*/1),
        lost_(members.size()) {
    std::ifstream before(path_, std::ios::binary);
    if (before) log_.take_up(parse_json<nlohmann::ordered_json>(before));
  }

  void begin_anew() {
    log_ = ActivityLog(members_, /*wire_scale=*/1);
    lost_.assign(members_.size(), false);
    step_began_.reset();
  }

  // Saves or loads the state in a checkpoint.
  void state(Archive& ar) {
    if (ar.loading()) begin_anew();
    log_.state(ar);
    ar(lost_);
    lost_.resize(members_.size());  // sites may have been added to the job
  }

  void input(Time now, const Input& input, Node& node, Learner* learner) override {
    now_ = now;
    if (std::holds_alternative<Stepped>(input) && step_began_) {
      log_.computed(self_, exact_seconds(*step_began_), exact_seconds(now));
      step_began_.reset();
    }
    if (next_) next_->input(now, input, node, learner);
  }

  void action(const Action& action, Learner* idle) override {
    if (std::holds_alternative<ComputeStep>(action)) step_began_ = now_;
    log_.acted(now_, self_, action);
    if (next_) next_->action(action, idle);
  }

  void answered(const Status& status) override {
    if (next_) next_->answered(status);
  }

  // Records nodes that this node's view has lost or regained.
  void view(Time now, const View& view) {
    for (Rank rank = 0; rank < lost_.size(); ++rank) {
      if (lost_[rank] == !view.has(rank)) continue;
      lost_[rank] = !lost_[rank];
      if (lost_[rank])
        log_.crashed(now, rank);
      else
        log_.restarted(now, rank);
    }
  }

  void write_if_due(Time now) {
    if (Clock::now() - written_ >= kActivityEvery) write(now);
  }

  void write(Time now) {
    written_ = Clock::now();
    replace_file(path_, log_.to_json(now).dump() + "\n");
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::string path_;
  const Members& members_;
  const Rank self_;
  Tap* const next_;
  ActivityLog log_;
  std::vector<bool> lost_;  // by rank
  Time now_{0};
  std::optional<Time> step_began_;
  Clock::time_point written_{};
};

// One run of one node.
class SiteSession {
 public:
  static Result<std::unique_ptr<SiteSession>> make(const Job& job, const SiteOptions& options,
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
    LH_LET(workload, Workload::load(job, /*numbers=*/true, options.learners, options.rank));
    if (workload.phantom())
      return invalid(job.file +
                     ": [model] kind = \"phantom\" has no numbers to send: it is for "
                     "simulate only");
    LH_TRY(fits_frames(job, options.faults_are_made));
    std::unique_ptr<SiteSession> site(new SiteSession(job, options, std::move(workload)));
    if (const Status built = site->build(std::move(sockets)); !built) {
      site->discard_folder();
      return built.error();
    }
    return site;
  }

  Result<Summary> run() {
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
    // An Error, not the end of a run: the old summary stays, and this node is not started again.
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

  // Returns true if the run continues without this process and lets its node rejoin.
  bool left_out() const { return loop_->left_out(); }
  bool must_resume() const { return loop_->must_resume(); }
  void note(const std::string& text) { log_->note(text); }

 private:
  SiteSession(const Job& job, const SiteOptions& options, Workload workload)
      : job_(job),
        options_(options),
        workload_(std::move(workload)),
        models_(job_, workload_, options_.folder) {}
  Status build(NodeSockets node_sockets) {
    LH_LET(thread_setup, workload_.set_up_threads());
    Members members = job_.members();
    members[options_.rank].incarnation = options_.rejoin ? 1 : 0;
    members_ = std::make_shared<const Members>(std::move(members));
    lost_.resize(members_->size());
    if ((*members_)[options_.rank].is(Role::worker)) {
      const std::uint32_t lanes = threads_of_lanes(job_);
      if (lanes > 0 && options_.record)
        return invalid("--record: a run with [sync] lane_threads = true cannot be replayed");
      LH_LET(made, lanes > 0 ? workload_.make_lanes(options_.rank, lanes)
                             : workload_.make_learner(options_.rank));
      learner_ = std::move(made);
    }
    std::optional<NodeStatus> before;  // from an earlier process of this node
    if (!options_.folder.empty()) {
      LH_LET(opened, RunFolder::open(options_.folder, job_, options_.existing));
      folder_ = std::move(opened);
      had_summary_ = std::filesystem::exists(folder_->file("summary.json"));
      before = read_status(folder_->path());
      status_.emplace(folder_->path());
    }
    log_.emplace(job_, *members_, folder_ ? &*folder_ : nullptr, options_.progress,
                 workload_.scores(), /*is_virtual=*/false);
    LH_LET(kept, checkpoints(entry_with(*job_.sync.entry, job_.sync.settings).traits.lets_return));
    LH_LET(peers, peers_of(std::move(node_sockets)));
    LH_LET(votes, folder_ ? read_own_votes(folder_->path(), *members_, options_.rank)
                          : std::optional<net::KeptVotes>{});
    loop_ = std::make_unique<net::EventLoop>(
        net::EventLoopConfig{.peers = std::move(peers),
                             .checkpoints = std::move(kept),
                             .votes = std::move(votes),
                             .keep = folder_ ? keeps_votes(folder_->path()) : nullptr,
                             .on_thread_start = std::move(thread_setup),
                             .step_time = pace(),
                             .model_digest = models_are_equal(job_) && learner_
                                                 ? std::function<std::uint64_t()>(
                                                       [this] { return digest(params()); })
                                                 : nullptr},
        place_of(job_, options_.rank, members_, workload_.layout(), false), learner_.get(),
        [this](std::span<const float> model) {
          return score_ ? score_(options_.rank, model) : Result<Evaluation>(Evaluation{});
        },
        observer());
    if (before) loop_->count_on(counters_of(*before));
    return workload_.meets() ? Status(Ok{}) : prepare();
  }

  void discard_folder() const {
    if (folder_) folder_->discard();
  }
  // Makes the node. Its parts may depend on the data of other sites.
  Status prepare() {
    LH_LET(score, workload_.make_node_scorer(1));
    score_ = std::move(score);
    if (!workload_.own_tests()) score_ = models_.keeping_best(std::move(score_));
    const Place place = place_of(job_, options_.rank, members_, workload_.layout(), false);
    LH_LET(strategy, build_socket_strategy(job_, place, workload_.training_samples()));
    node_ = std::make_unique<Node>(place, std::move(strategy), learner_.get(), *loop_);
    if (!folder_) return Ok{};
    if (options_.record) {
      LH_LET(recording, Recording::open(folder_->path(), job_, workload_, place, *options_.record));
      recording_ = std::move(recording);
    }
    activity_ = std::make_unique<NodeActivity>(folder_->path(), *members_, options_.rank,
                                               recording_ ? recording_->tap() : nullptr);
    node_->tap(activity_.get());
    return Ok{};
  }

  // Exchanges the descriptions of the sites' data. The run folder keeps them, because a returned
  // node may need those of lost sites.
  Status meet() {
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
    for (const std::string& text : workload_.warnings()) log_->warn(text);  // equal at all sites
    warned_ = log_->warnings().size();
    facts_ = Facts::unwritten;
    log_->wrote("facts.bin", keep_facts());
    return Ok{};
  }

  net::EventLoop::Observer observer() {
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
                  return log_->take_restored() || asked;  // the older ones are gone
                },
            .stop = [this] { return interrupted() || !log_->low_participation().empty(); }};
  }

  Result<net::PeersConfig> peers_of(NodeSockets sockets) const {
    // A copy, because this node may need the socket again to rejoin.
    if (sockets.listening >= 0) sockets.listening = ::dup(sockets.listening);
    net::PeersConfig config = peers_config(job_, options_.rank, std::move(sockets), job_hash(job_));
    // A node that insists on rejoining waits for the run, as other nodes wait for their peers.
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

  // Returns the descriptions of data by rank. The node's own may have changed and replace kept
  // ones.
  net::Words words() const {
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

  std::uint64_t live(const View& view) const {
    return std::uint64_t(std::count_if(view.live.begin(), view.live.end(), [this](Rank rank) {
      return members_->at(rank).is(Role::worker);
    }));
  }

  // Reports lost and returned nodes to the ledger of samples.
  void note_samples(const View& view) {
    for (Rank rank = 0; rank < lost_.size(); ++rank) {
      const bool is_lost = rank != options_.rank && !view.has(rank);
      if (is_lost == lost_[rank]) continue;
      lost_[rank] = is_lost;
      is_lost ? log_->node_lost(rank) : log_->node_returned(rank);
    }
  }

  // Returns the best score in the newest checkpoint of the earlier incarnation: that of best.pt.
  std::optional<BestScore> best_before() const {
    if (!folder_) return std::nullopt;
    const auto newest = Checkpoints(folder_->checkpoints()).newest();
    if (!newest || !*newest) return std::nullopt;
    RunLog before(job_, *members_, nullptr, Progress::Style::quiet, bool(score_),
                  /*is_virtual=*/false);
    Archive counted((**newest).experiment);
    before.state(counted);
    return counted.failed() ? std::nullopt : before.best();
  }

  Result<net::CheckpointConfig> checkpoints(bool lets_return) {
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

  net::Pace::Duration pace() const {
    if (!job_.net.pace) return {};
    return [rank = options_.rank,
            times = std::shared_ptr<const sim::ComputeTime>(step_times(job_, *members_))](
               std::uint64_t step, Time at, const Work& work) {
      return times->duration(rank, step, at, work);
    };
  }

  // Captures the state of the log with the node's; the returned task writes both.
  std::function<Status()> save(std::uint64_t number, Buffer state) {
    auto [bytes, sync] = log_->sync_later();
    Archive counted;
    log_->state(counted);
    activity_->state(counted);
    return
        [sync = std::move(sync), folder = folder_->checkpoints(), kept = job_.job.keep_checkpoints,
         checkpoint = Checkpoint{.job_hash = resume_hash(job_, job_.sites.size()),
                                 .round = number,
                                 .metrics_bytes = bytes,
                                 .world = std::move(state),
                                 .experiment = counted.take(),
                                 .view = node_->view(),
                                 .sites = std::uint32_t(job_.sites.size()),
                                 .members = std::uint32_t(members_->size()),
                                 .model = whole_model(learner_.get(), params())}]() -> Status {
          LH_TRY(sync());  // first: a checkpoint must not count bytes that the file lacks
          return Checkpoints(folder, kept).write(checkpoint);
        };
  }

  Result<Buffer> load(std::uint64_t number) {
    if (!folder_ || options_.existing != ExistingFolder::resume) {
      LH_TRY(log_->open(0));
      return Buffer{};
    }
    const Checkpoints checkpoints(folder_->checkpoints());
    if (newest_ > number + 1)  // in a correct run two nodes are at most one apart
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
    LH_LET(checkpoint, checkpoints.at(number));
    checkpoints.drop_after(number);
    Archive counted(checkpoint.experiment);
    log_->state(counted);
    activity_->state(counted);
    LH_TRY(counted.finish());
    models_.resume(log_->best());
    LH_TRY(log_->open(checkpoint.metrics_bytes));
    log_->note(fmt::format("resumes from checkpoint {}", number));
    return std::move(checkpoint.world);
  }

  // Writes facts.bin, and writes it again if it is missing: full disk, or a removed folder.
  Status keep_facts() {
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

  void compare_ends() {
    for (const auto& [rank, model] : loop_->ends())
      if (learner_ && models_are_equal(job_) && model != digest(params()))
        log_->warn(fmt::format("{} has ended with another model than {}: their params_hash differ",
                               node_name(members_->at(rank)),
                               node_name(members_->at(options_.rank))));
  }

  // Sends new warnings of this node to the other nodes.
  void warn_others() {
    for (; warned_ < log_->warnings().size(); ++warned_) loop_->warn_all(log_->warnings()[warned_]);
  }

  void progress() {
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

  NodeStatus status(bool ended) {
    NodeStatus status = site_status(*members_, options_.rank, *loop_, ended);
    status.rounds = node_ ? node_->strategy().rounds_done() : 0;
    status.max_rounds = job_.stop.max_rounds;
    status.members = log_->participation().members;
    status.live = log_->participation().live;
    status.waited_s = wait_clock_.waited_s(status);
    return status;
  }

  Result<Summary> summary(const Status& ended) {
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
    // A session that has not begun, or was not admitted, has untrained parameters.
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
      summary.stop_reason =
          stop_reason(job_, log_->reached_target(), summary.rounds, counters.time);
      note_divergence(node_->strategy(), summary);
      LH_TRY(conclude(summary));
    }
    log_->restore_folder();
    LH_TRY(kept_at_the_end(keep_facts()));
    // Also for a stopped session, but not for one that never began.
    if (learner_ && folder_ && counters.time > Time{0} &&
        summary.stop_reason != StopReason::diverged)
      LH_TRY(models_.end(whole_model(learner_.get(), params()), log_->reached_target()));
    summary.model_is_best = log_->reached_target() && models_.has_best();
    summary.real_s = log_->real_s();
    if (const auto written = log_->sync(); !written) LH_TRY(kept_at_the_end(written.error()));
    LH_TRY(keep_summary(summary, bool(ended)));
    return summary;
  }

  // Scores the final model of a run that ended by itself.
  Status conclude(Summary& summary) {
    if (workload_.own_tests()) {
      summary.site_scores = site_scores(*members_, node_->scores().at_end());
      log_->conclude(loop_->counters().time, options_.rank, ScoreSum::sum(node_->scores().at_end()),
                     summary);
    } else if (learner_ && score_) {
      LH_LET(evaluation, score_(options_.rank, whole_model(learner_.get(), params())));
      log_->conclude(loop_->counters().time, options_.rank, evaluation, summary);
    }
    return Ok{};
  }

  // Writes the summary. A session that could not begin keeps the previous one.
  Status keep_summary(const Summary& summary, bool ended) {
    if (!folder_ || (!ended && had_summary_ && loop_->counters().time == Time{0})) return Ok{};
    return kept_at_the_end(write_atomically(folder_->file("summary.json"), summary_text(summary)));
  }

  std::span<const float> params() const {
    return learner_ ? learner_->params() : std::span<const float>{};
  }

  const Job& job_;
  const SiteOptions options_;
  Workload workload_;
  ModelFiles models_;
  Workload::NodeScore score_;
  std::shared_ptr<const Members> members_;
  std::vector<bool> lost_;  // by rank, from the newest view
  std::unique_ptr<Learner> learner_;
  std::optional<RunFolder> folder_;
  std::uint64_t newest_ = 0;  // number of the newest checkpoint; 0: none
  CheckpointRequests requests_;
  std::size_t warned_ = 0;  // number of the log's warnings that the other nodes know
  enum class Facts : std::uint8_t { none, unwritten, written } facts_ = Facts::none;  // facts.bin
  bool had_summary_ = false;  // an earlier session left a summary
  std::optional<RunLog> log_;
  std::optional<StatusFile> status_;
  WaitClock wait_clock_;
  std::unique_ptr<net::EventLoop> loop_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<NodeActivity> activity_;  // null without a folder
};

constexpr int kMostTurns = 16;  // restarts (resumes and rejoins) without a new round between them

}  // namespace

Result<Summary> run_site(const Job& job, const SiteOptions& options) {
  LH_TRY(fits_frames(
      job, options.faults_are_made));  // the job's own errors before those of keys and addresses
  LH_LET(sockets,
         node_sockets(job, options.rank, options.addresses, options.listening, options.security));
  if (const std::string name = job.members()[options.rank].site; job.leaves_out(name)) {
    Progress(options.progress, job.job.name)
        .note(name + ": [run] without leaves this site out; the others go on without it");
    return summary_of(job);
  }
  SiteOptions now = options;
  if (options.existing != ExistingFolder::force && !options.folder.empty()) {
    LH_LET(over, nothing_left(options.folder, job));
    if (over) {
      Progress(options.progress, job.job.name)
          .note(options.folder + ": this run is over already; --force begins anew");
      return *over;
    }
  }
  Round reached = 0;
  for (int turns = 0;; ++turns) {
    now.existing = RunFolder::resolve(options.folder, now.existing);
    LH_LET(site, SiteSession::make(job, now, sockets));
    auto summary = site->run();
    if (summary && summary->rounds > std::exchange(reached, std::max(reached, summary->rounds)))
      turns = 0;
    // The peers decide: rejoin with a new incarnation, or resume if they have stopped meanwhile.
    const bool rejoins = site->left_out() && !interrupted();
    const bool resumes = site->must_resume() && !options.rejoin && !interrupted();
    if ((!rejoins && !resumes) || turns == kMostTurns) return summary;
    site->note((summary ? summary->failure : summary.error().what) +
               (rejoins ? "; asks to rejoin" : "; resumes"));
    now.rejoin = rejoins;
    now.insists = options.rejoin;
    now.existing = ExistingFolder::resume_or_begin;
  }
}

}  // namespace longhaul::run
