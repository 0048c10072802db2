#include "longhaul/net/event_loop.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "longhaul/base/printable.h"
#include "longhaul/core/kept_values.h"
#include "longhaul/core/message.h"
#include "longhaul/core/score_sum.h"

namespace longhaul::net {

using namespace std::chrono_literals;

// Messages between the loops of a run, outside the nodes, so that all sites can report the same:
// scores, warnings, and reasons to leave. Their address is a machine that no node has.
inline const Path kLoop = Path().child(14);

// ScoreSum::Total: a report is scored.
struct Contributed {  // to the senior worker: the norm of the sender's contribution
  LONGHAUL_MESSAGE(3, "contributed");
  Round round = 0;
  double norm = 0;
  LONGHAUL_FIELDS(round, norm)
};
struct Warns {  // to all nodes
  LONGHAUL_MESSAGE(4, "warns");
  static constexpr std::size_t kMostText = 1000;
  std::string text;
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(text, .max = double(kMostText)); }
};
struct Leaves {  // to all nodes: the reason of a node that has failed
  LONGHAUL_MESSAGE(5, "leaves");
  bool diverged = false;    // the run ends
  bool state_lost = false;  // no node in the sender's view has the state: all nodes resume
  Epoch epoch = 0;          // epoch of that view
  std::string why;
  LONGHAUL_FIELDS(diverged, state_lost, epoch, (why, .max = double(Warns::kMostText)))
};
struct Ends {  // to all nodes: the digest of the node's final model in a finished run
  LONGHAUL_MESSAGE(6, "ends");
  std::uint64_t model = 0;
  LONGHAUL_FIELDS(model)
};
using LoopMessages = MessageList<ScoreSum::Total, Contributed, Warns, Leaves, Ends>;

namespace {

constexpr Time kTick = 50ms, kLastWords = 1s, kLinger = 200ms, kSaveAgain = 2s;
constexpr std::size_t kMostHeld = 64;  // messages per kind and peer, while a disk hangs

}  // namespace

EventLoop::EventLoop(EventLoopConfig config, Place place, Learner* learner, Scorer scorer,
                     Observer observer)
    : place_(std::move(place)),
      learner_(learner),
      scorer_(std::move(scorer)),
      observer_(std::move(observer)),
      peers_(loop_, std::move(config.peers), place_, *this),
      model_digest_(std::move(config.model_digest)),
      pace_(std::move(config.step_time)),
      checkpoints_(std::move(config.checkpoints)),
      votes_(std::move(config.votes)),
      keep_(std::move(config.keep)),
      scoring_(std::make_unique<TaskThread>(config.on_thread_start)),
      computing_(std::make_unique<TaskThread>(config.on_thread_start)) {}

EventLoop::~EventLoop() = default;

std::string EventLoop::name(Rank rank) const {
  return fmt::format("rank {} ({})", rank, place_.member(rank).site);
}

Status EventLoop::meet() {
  LH_CHECK(!met_);
  met_ = true;
  peers_.offer({.newest = checkpoints_.newest,
                .members = checkpoints_.members,
                .has_before = checkpoints_.has_before,
                .view = checkpoints_.view});
  peers_.tell_time([this] { return now(); });
  tick();
  const auto failed = [this] { return failure_.has_value(); };
  if (!peers_.listening())
    if (const auto port = peers_.listen(failed); !port) return failure_.value_or(port.error());
  LH_TRY(peers_.connect_all(failed));
  if (!failure_) return Ok{};
  if (peers_.last_word()) part(*peers_.last_word());
  return *failure_;
}

Status EventLoop::run(Node& node) {
  LH_CHECK(!node_);
  node_ = &node;
  if (!met_) LH_TRY(meet());
  if (failure_) return *failure_;
  if (place_.comes_back()) {
    rejoin();
  } else if (const Status gone_on = resume_run(); !gone_on) {
    failure_ = gone_on.error();
  }
  while (!over()) (void)loop_.run_until(loop_.now() + 1s, [this] { return over(); });
  running_ = false;
  ended_ = now();
  if (leaves_) say_why_it_leaves();
  if (!failure_) {
    drop_lost();  // Ends is for live nodes only
    if (model_digest_ && !stepping_) tell_all(Ends{model_digest_()});
    peers_.shut_down(kShutdownTimeout);
  }
  keeper_.reset();
  computing_.reset();  // no other thread uses the learner from here on
  scoring_.reset();
  if (failure_) return *failure_;
  return Ok{};
}

// Starts from the checkpoint that all nodes agree on (Meeting::choose_checkpoint), or from the
// beginning.
Status EventLoop::resume_run() {
  const auto chosen = peers_.meeting().choose_checkpoint();
  if (!chosen) {
    part(chosen.error());
    return chosen.error();
  }
  if (!*chosen) {
    on_left_out(unavailable("the others resume a state that this site is not in"), false);
    return *failure_;
  }
  const std::uint64_t newest = **chosen;
  auto bytes = checkpoints_.load ? checkpoints_.load(newest) : Result<Buffer>(Buffer{});
  if (!bytes) {  // damaged, or from a time without this site: the others have the state
    on_left_out(bytes.error(), false);
    return *failure_;
  }
  own_checkpoints_ = {newest, newest};
  peers_.restore_checkpoint(newest);
  started_ = loop_.now();
  running_ = true;
  if (newest == 0) {
    counters_ = {};
    connected_ = true;
    peers_.open();
    node_->start(now());
    return Ok{};
  }
  Archive ar(*bytes);
  state(ar);
  cannot_go_on_ = true;
  if (const Status read = ar.finish(); !read)
    return malformed(
        fmt::format("checkpoint {} cannot be resumed: {}; start all sites with --force", newest,
                    read.error().what));
  // No checkpoint is kept after the last round, so max_rounds was lowered: nodes would end in
  // different rounds.
  if (const Round done = node_->strategy().rounds_done(); done >= checkpoints_.last_round)
    return invalid(fmt::format(
        "[stop] max_rounds = {}: the run has done {} rounds by checkpoint {}; resume it with more, "
        "or take the model that is there: longhaul export",
        checkpoints_.last_round, done, newest));
  cannot_go_on_ = false;
  connected_ = true;  // from here on, this session has a model
  drop_lost();        // lost nodes of that state; they may rejoin
  const std::size_t live = node_->view().live.size();
  if (live < place_.size())
    on_note(fmt::format("the run resumes with {} of {} nodes", live, place_.size()));
  peers_.open();
  deliver_step_when_due();
  return Ok{};
}

// Joins a run in progress and counts checkpoints from the others' newest number.
void EventLoop::rejoin() {
  const std::uint64_t newest = peers_.newest_taken_checkpoint();
  own_checkpoints_ = {newest, newest};
  peers_.announce(own_checkpoints_);
  // The run's clock continues: [stop] max_hours does not restart, and all records use one clock.
  started_ = peers_.run_began().value_or(loop_.now());
  running_ = connected_ = true;
  peers_.open();
  if (votes_ && votes_->life == peers_.meeting().life()) remember();
  node_->start(now());
}

void EventLoop::tick() {
  peers_.tick();
  if (observer_.on_tick) observer_.on_tick();
  checkpoint_if_due();
  stop_if_asked();
  if (running()) drop_lost(), tell_contributed();
  tick_ = loop_.at(loop_.now() + kTick, [this] { tick(); });
}

// Drops nodes that the members have declared lost.
void EventLoop::drop_lost() {
  for (Rank rank = 0; rank < place_.size(); ++rank)
    if (rank != place_.self && !node_->view().has(rank)) peers_.drop(rank);
}

// --- peers --------------------------------------------------------------------------------------

void EventLoop::on_message(Rank from, const Message& message) {
  const bool to_loop = message.machine.bits() == kLoop.bits();
  // A node that has finished may lack the last sum of scores.
  const bool late = finished_ && !failure_ && !message.machine.empty() &&
                    message.machine.head() == ScoreSum::kName.number;
  if (!running() && !late && !(to_loop && node_ && !failure_)) return;
  if (const Status good = to_loop ? take(from, message) : node_->deliver(now(), from, message);
      !good)
    on_note(fmt::format("{} sent an invalid message: {}", name(from), good.error().what));
}

void EventLoop::on_writable(Rank peer, unsigned service_class) {
  if (running()) node_->writable(now(), peer, service_class);
}

void EventLoop::on_silent(Rank peer, bool silent, const std::string& trouble) {
  if (!running()) return;
  troubles_[peer] = trouble;
  const std::string awaited = silent ? node_->waiting_for() : "";
  if (silent)
    on_note(fmt::format("lost contact with {}: {}{}{}", name(peer), trouble,
                        awaited.empty() ? "" : "; waiting for ", awaited));
  const bool had_quorum = node_->has_quorum();
  node_->unreachable(now(), peer, silent);
  if (had_quorum && !node_->has_quorum())
    on_note(fmt::format("keeps its state, waiting for {}", node_->waiting_for()));
}

// During the run, a peer that refuses this node is treated as silent; membership decides.
void EventLoop::on_refused(const Error& why) {
  const bool outside = running_ && place_.comes_back() && node_->view().epoch == 0;
  if (!over() && (!running_ || outside)) failure_ = why;
}

// A node without a quorum has no state that a run resumed without it must wait for.
void EventLoop::on_left_out(const Error& why, bool lost) {
  if (over() || (running_ && !lost && (node_->outside() || node_->has_quorum()))) return;
  left_out_ = !node_ || node_->strategy().lets_return();  // without a node: it asks first
  failure_ = left_out_ ? why
                       : unavailable(why.what +
                                     ", and its [sync] kind takes no lost site back; end all sites "
                                     "and start them again: they resume from their checkpoints");
}

void EventLoop::on_resumes(const Error& why) {
  if (over() || !place_.comes_back() || (running_ && !node_->outside())) return;
  if (peers_.meeting().meets_member()) return;
  must_resume_ = true;
  failure_ = why;
}

void EventLoop::on_rejoin_request(Rank peer) {
  if (!running()) return;
  on_note(fmt::format("{} asks to rejoin", name(peer)));
  node_->returned(now(), peer);
}

void EventLoop::on_note(const std::string& text) {
  if (observer_.on_note) observer_.on_note(text);
}

void EventLoop::break_connections() {
  loop_.post([this] { peers_.break_connections(); });
}

// --- requests of the node -----------------------------------------------------------------------

void EventLoop::send(Rank, Send send) {
  if (place_.member(send.to).site != place_.me().site) {
    const unsigned links = peers_.relayed(send.to) ? 2 : 1;
    counters_.wan_messages += links;
    counters_.wan_bytes += links * frame_size(send.message);
  }
  if (keeping_ && Node::is_of_membership(send.message)) return hold(std::move(send));
  peers_.send(send);
}

void EventLoop::count_on(const Counters& before) {
  counters_.computing += before.computing;
  counters_.wan_bytes += before.wan_bytes;
  counters_.wan_messages += before.wan_messages;
}

EventLoop::Counters EventLoop::counters() const {
  Counters counters = counters_;
  counters.pace = pace_.figures();
  if (connected_) counters.time = running_ ? now() : ended_;
  return counters;
}

EventLoop::Doing EventLoop::doing() const {
  if (over()) return {"parting", "", peers_.awaited(), {}};
  if (stopping_ && disk_is_at_work())
    return {"writing", fmt::format("checkpoint {}", own_checkpoints_.taken), {}, peers_.quiet()};
  if (!running_) return {"meeting", "", peers_.awaited(), {}};
  if (stepping_ || undelivered_step_) return {"computing", "", {}, peers_.quiet()};
  return {"waiting", node_->waiting_for(), {}, peers_.quiet()};
}

void EventLoop::set_timer(Rank, const SetTimer& timer) {
  start_timer({timer.machine.bits(), timer.id}, timer.at);
}

void EventLoop::start_timer(std::pair<std::uint32_t, TimerId> key, Time at) {
  timers_[key] = {at, loop_.at(started_ + at, [this, key] {
                    timers_.erase(key);
                    if (running()) node_->timer(now(), Path::from_bits(key.first), key.second);
                  })};
}

void EventLoop::cancel_timer(Rank, const CancelTimer& timer) {
  timers_.erase({timer.machine.bits(), timer.id});
}

void EventLoop::compute(Rank, ComputeStep step) {
  LH_CHECK(learner_ && !stepping_ && !undelivered_step_);
  stepping_ = true;
  pace_.begin(now(), step.work, in_step_turn_);
  computing_->submit([this, work = std::move(step.work)] {
    auto result = std::make_shared<Result<StepResult>>(learner_->step(work));
    loop_.post([this, result] { on_step_done(std::move(*result)); });
  });
}

void EventLoop::on_step_done(Result<StepResult> result) {
  stepping_ = false;
  if (!running()) return;
  if (!result) return fail(place_.self, result.error());
  result->elapsed = pace_.done(now());
  counters_.computing += result->elapsed;
  undelivered_step_ = *std::move(result);
  checkpoint_if_due();
  (void)take_checkpoint(wanted_checkpoint_);  // a checkpoint may have waited for this
  stop_if_asked();
  deliver_step_when_due();
}

// The learner rests until the step is due, so a checkpoint or the end of the run need not wait.
void EventLoop::deliver_step_when_due() {
  if (!undelivered_step_) return;
  if (pace_.due() <= now()) return deliver_step();
  step_timer_ = loop_.at(started_ + pace_.due(), [this] { deliver_step(); });
}

void EventLoop::deliver_step() {
  const auto result = std::exchange(undelivered_step_, std::nullopt);
  if (!result || !running()) return;
  in_step_turn_ = true;
  node_->stepped(now(), *result);
  in_step_turn_ = false;
}

void EventLoop::report(Rank, Report report) {
  Snapshot model = std::move(report.model);
  if (!model && learner_) {
    model = std::make_shared<const std::vector<float>>(whole_model(learner_, learner_->params()));
  } else if (model && keeper(learner_)) {
    model = std::make_shared<const std::vector<float>>(whole_model(learner_, *model));
  }
  score(report.round, std::move(model));
}

void EventLoop::score(Round round, Snapshot model) {
  scorings_.emplace_back(round, model);
  scoring_->submit([this, round, model] {
    auto result = std::make_shared<Result<Evaluation>>(
        model && scorer_ ? scorer_(*model) : Result<Evaluation>(Evaluation{}));
    loop_.post([this, round, model, result] {
      if (!running()) return;
      scorings_.erase(scorings_.begin());
      if (!*result) {
        fail(place_.self, (*result).error());
        return;
      }
      if (observer_.on_report) observer_.on_report(now(), round, model, **result);
      if (!place_.own_tests) tell_all(ScoreSum::Total{ScoreSum::Part::of(round, **result)});
      node_->scored(now(), round, **result);
    });
  });
}

template <MessageStruct M>
void EventLoop::tell(Rank rank, const M& fields) {
  Send send{.to = rank, .message = {}, .service = kControl};
  send.message.machine = kLoop;
  send.message.kind = M::kKind;
  send.message.epoch = node_->view().epoch;
  send.message.head = Payload(share(to_wire(fields)));
  peers_.send(send);
}

template <MessageStruct M>
void EventLoop::tell_all(const M& fields) {
  for (const Rank rank : node_->view().live)
    if (rank != place_.self) tell(rank, fields);
}

// Keeps the largest norm of a tick: rounds may be shorter.
void EventLoop::tell_contributed(Round round, double norm) {
  if (!(norm <= contributed_norm_)) contributed_round_ = round, contributed_norm_ = norm;
}

void EventLoop::tell_contributed() {
  const double norm = std::exchange(contributed_norm_, -1);
  const Rank senior = senior_worker(place_, node_->view());
  if (norm >= 0 && senior != place_.self) tell(senior, Contributed{contributed_round_, norm});
}

void EventLoop::warn_all(const std::string& text) {
  tell_all(Warns{text.substr(0, Warns::kMostText)});
}

// Sends the reason to all nodes, so that they need not detect the loss by silence.
void EventLoop::say_why_it_leaves() {
  tell_all(Leaves{failure_->kind == Error::Kind::not_finite,
                  failure_->kind == Error::Kind::state_lost, node_->view().epoch,
                  failure_->what.substr(0, Warns::kMostText)});
  (void)loop_.run_until(loop_.now() + kLastWords, [this] { return peers_.idle(); });
}

Status EventLoop::take(Rank from, const Message& message) {
  return dispatch(LoopMessages{}, message, [&](const auto& m) -> Status {
    take(from, m);
    return Ok{};
  });
}

void EventLoop::take(Rank from, const ScoreSum::Total& m) {
  auto& newest = scores_of_[from];
  if (newest && m.round <= *newest) return;
  newest = m.round;
  if (observer_.on_score) observer_.on_score(now(), from, m.round, m.evaluation());
}

void EventLoop::take(Rank from, const Contributed& m) {
  if (observer_.on_contributed) observer_.on_contributed(from, m.round, m.norm);
}

void EventLoop::take(Rank, const Warns& m) {
  if (observer_.on_warning) observer_.on_warning(printable(m.text));
}

void EventLoop::take(Rank from, const Leaves& m) {
  const std::string why = printable(m.why);
  troubles_[from] = "it has left: " + why;
  on_note(fmt::format("{} leaves the run: {}", name(from), why));
  if (over()) return;
  if (m.diverged) failure_ = not_finite(fmt::format("{}: {}", name(from), why));
  if (m.state_lost && m.epoch == node_->view().epoch) lose_state(state_lost(why));
}

void EventLoop::take(Rank from, const Ends& m) { ends_[from] = m.model; }

void EventLoop::summed(Rank, Rank senior, Round round, const Evaluation& sum) {
  if (observer_.on_score) observer_.on_score(now(), senior, round, sum);
}

// Lost nodes are dropped with the next tick: the caller may be inside one of their links.
void EventLoop::follow(Rank, const View& before, const View& now) {
  if (!now.has(place_.self)) return;
  if (!peers_.meeting().is_member()) peers_.admitted();
  if (now.live.size() < place_.size()) peers_.end_pacing();
  const std::string goes_on =
      fmt::format("the run goes on with {} of {} nodes", now.live.size(), place_.size());
  for (const Rank rank : before.live) {
    if (now.has(rank)) continue;
    const std::string& trouble = troubles_[rank];
    on_note(fmt::format("{} is declared lost{}{}; {}", name(rank), trouble.empty() ? "" : ": ",
                        trouble, goes_on));
  }
  for (const Rank rank : now.live) {
    if (rank == place_.self || before.has(rank)) continue;
    peers_.admit(rank);
    on_note(fmt::format("{} is back; {}", name(rank), goes_on));
  }
  if (observer_.on_view) observer_.on_view(this->now(), now);
}

void EventLoop::record(Rank, const Record& record) {
  if (observer_.on_record) observer_.on_record(now(), record);
}

void EventLoop::append(Rank rank, const Append& append) {
  observer_.on_append ? observer_.on_append(append) : Host::append(rank, append);
}

void EventLoop::reply(Rank rank, const Reply& reply) {
  observer_.on_reply ? observer_.on_reply(reply) : Host::reply(rank, reply);
}

void EventLoop::give(Input input) {
  loop_.post([this, input = std::move(input)] {
    if (running()) LH_CHECK(node_->feed(now(), input));
  });
}

void EventLoop::fail(Rank, const Error& error) {
  if (failure_) return;
  if (node_->excluded()) return on_left_out(error, /*lost=*/true);
  leaves_ = true;
  if (error.kind == Error::Kind::state_lost) return lose_state(error);
  failure_ = error;
}

// All nodes return to the last checkpoint, if there is one.
void EventLoop::lose_state(const Error& error) {
  failure_ = error;
  must_resume_ = own_checkpoints_.saved > 0 && node_->strategy().lets_return();
}

// Checkpoints of a node over sockets: times and contents. See link.h for their consistency between
// nodes.

void EventLoop::checkpoint_if_due() {
  if (!running() || stopping_) return;
  note_request();
  if (!checkpoints_.save || at_end()) return;
  // A returned node does not know the round of the newest checkpoint; the other nodes do.
  const bool counts = checkpoints_.every > 0 && !place_.comes_back();
  const Round rounds = node_->strategy().rounds_done();
  const bool due = counts && rounds >= rounds_at_checkpoint_ + checkpoints_.every;
  // The previous checkpoint must be on every disk, so that all nodes always share at least one.
  if ((due || checkpoint_asked_) && saved_by_all())
    (void)take_checkpoint(own_checkpoints_.taken + 1);
}

// A checkpoint that other nodes request also answers the request.
void EventLoop::note_request() {
  checkpoint_asked_ |= observer_.checkpoint && observer_.checkpoint();
  if (!checkpoint_asked_ || (checkpoints_.save && !at_end())) return;
  checkpoint_asked_ = false;
  on_note(checkpoints_.save ? "no checkpoint, as is asked: the run is at its end"
                            : "no checkpoint, as is asked: this run has no folder");
}

bool EventLoop::on_checkpoint(Rank, std::uint64_t number) {
  // A node at its end, or without checkpoints, does not delay the others.
  if (!running() || !checkpoints_.save) return true;
  return take_checkpoint(number);
}

// Returns false while the learner computes: its state cannot be saved. on_step_done() then saves
// it.
bool EventLoop::take_checkpoint(std::uint64_t number) {
  if (number <= own_checkpoints_.taken) return true;
  wanted_checkpoint_ = number;
  if (stepping_) return false;
  note_request();
  own_checkpoints_.taken = number;
  if (std::exchange(checkpoint_asked_, false)) asked_checkpoint_ = number;
  rounds_at_checkpoint_ = node_->strategy().rounds_done();
  if (at_end()) {  // the others continue without this node's checkpoint, and resume from the
                   // previous one
    peers_.announce(own_checkpoints_);
    return true;
  }
  Archive ar;
  state(ar);
  write_checkpoint(number, std::make_shared<const std::function<Status()>>(
                               checkpoints_.save(number, ar.take())));
  peers_.announce(own_checkpoints_);
  return true;
}

void EventLoop::write_checkpoint(std::uint64_t number, Write write) {
  ++writes_;
  scoring_->submit([this, number, write] {
    const Status written = (*write)();
    loop_.post([=, this] { checkpoint_written(number, write, written); });
  });
}

// No node takes the next checkpoint before this one is on disk, so that all nodes always share one.
void EventLoop::checkpoint_written(std::uint64_t number, Write write, const Status& written) {
  --writes_;
  if (written) {
    if (save_again_ || number == asked_checkpoint_)
      on_note(fmt::format("checkpoint {} is written", number));
    save_again_.reset();
    own_checkpoints_.saved = std::max(own_checkpoints_.saved, number);  // may be later already
    peers_.announce(own_checkpoints_);
  } else if (!over()) {
    if (!save_again_)
      observer_.on_note(fmt::format(
          "checkpoint {}: {}; the run goes on, and no site takes the next one before this is "
          "written; tried again each {:g} s: make room",
          number, written.error().what, seconds(kSaveAgain)));
    save_again_ =
        loop_.at(loop_.now() + kSaveAgain, [=, this] { write_checkpoint(number, write); });
  }
}

// All nodes are asked to stop at about the same time, so the last checkpoint is soon on every disk.
// If a node continues or has ended, this node waits no longer than stop_within. Its own disk may
// take longer: the threads end only after their writes.
void EventLoop::stop_if_asked() {
  if (!observer_.stop || over() || !observer_.stop()) return;
  const auto end = [this] { failure_ = unavailable("stopped by its user"); };
  if (!running_ || !checkpoints_.save || at_end()) return end();
  if (!stopping_) {
    stopping_ = loop_.now() + checkpoints_.stop_within;
    if (saved_by_all()) (void)take_checkpoint(own_checkpoints_.taken + 1);
    last_checkpoint_ = wanted_checkpoint_;
  }
  const bool is_kept = own_checkpoints_.saved >= last_checkpoint_;
  if (!is_kept && disk_is_at_work()) {
    stopping_ = loop_.now() + checkpoints_.stop_within;
    return;
  }
  // The other nodes must learn that the checkpoint is on this disk before this node disconnects.
  if (is_kept && peers_.saved_by_all(last_checkpoint_))
    stopping_ = std::min(*stopping_, loop_.now() + kLinger);
  if (loop_.now() >= *stopping_) end();
}

void EventLoop::state(Archive& ar) {
  ar.expect("node " + std::to_string(place_.self) + " over sockets");
  // Sites added to the job since then have the highest ranks; the view of that state excludes them.
  std::uint32_t members = place_.size();
  ar(members);
  if (members > place_.size()) return ar.fail("holds more nodes than the job has");
  Time at = now();
  ar(at, counters_.computing, counters_.wan_bytes, counters_.wan_messages, undelivered_step_);
  pace_.state(ar);
  if (ar.loading()) started_ = loop_.now() - at;
  node_->state(ar);
  if (learner_) learner_->state(ar);
  peers_.state(ar, members);
  std::map<std::pair<std::uint32_t, TimerId>, Time> timers;
  for (const auto& [key, due] : timers_) timers[key] = due.at;
  std::vector<std::pair<Round, std::vector<float>>> scorings;
  scorings.reserve(scorings_.size());
  for (const auto& [round, model] : scorings_)
    scorings.emplace_back(round, model ? *model : std::vector<float>{});
  ar(timers, scorings);
  if (!ar.loading() || ar.failed()) return;
  rounds_at_checkpoint_ = node_->strategy().rounds_done();
  wanted_checkpoint_ = own_checkpoints_.taken;
  for (const auto& [key, due] : timers) start_timer(key, due);
  for (auto& [round, model] : scorings)
    score(round,
          model.empty() ? nullptr : std::make_shared<const std::vector<float>>(std::move(model)));
}

// --- votes: kept on disk before a message that depends on them is sent --------------------------

void EventLoop::remember() {
  const auto votes = std::as_bytes(std::span(votes_->votes));
  const Status read = node_->remember(now(), share({votes.begin(), votes.end()}));
  if (!read) on_note("what this site has voted before cannot be read: " + read.error().what);
}

// Messages wait until the vote is on disk. After a failed write `keep_` leaves no file, and the
// next process has no vote.
void EventLoop::keep(Rank, const Buffer& votes) {
  if (!keep_) return;
  if (!keeper_) keeper_ = std::make_unique<TaskThread>();
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(votes.data());
  to_keep_ = KeptVotes{place_.self, peers_.meeting().life(), {bytes, bytes + votes.size()}};
  if (!std::exchange(keeping_, true)) write_votes();
}

// Writes the newest votes only: at most one write waits for a disk that hangs.
void EventLoop::write_votes() {
  keeper_->submit([this, votes = *std::exchange(to_keep_, std::nullopt)] {
    const Status written = keep_(votes);
    loop_.post([this, written] { kept(written); });
  });
}

void EventLoop::kept(const Status& written) {
  if (!written && !std::exchange(cannot_keep_, true))
    on_note(written.error().what +
            ": if this site is started again, it has no vote until it is let in");
  if (to_keep_) return write_votes();
  keeping_ = false;
  for (const Send& send : std::exchange(held_, {})) peers_.send(send);
}

// Holds a message, and drops the oldest of its kind to that peer. Membership repeats its proposals,
// and answers questions about the last 64 epochs only.
void EventLoop::hold(Send send) {
  const auto is_alike = [&](const Send& one) {
    return one.to == send.to && one.message.kind == send.message.kind;
  };
  if (std::size_t(std::ranges::count_if(held_, is_alike)) >= kMostHeld)
    held_.erase(std::ranges::find_if(held_, is_alike));
  held_.push_back(std::move(send));
}

}  // namespace longhaul::net
