#include "longhaul/sim/world.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "longhaul/base/queue.h"
#include "longhaul/core/kept_values.h"

namespace longhaul::sim {

using namespace std::chrono_literals;

// A value that the pool computes or has computed.
template <class T>
struct World::Task {
  ThreadPool::Ticket ticket = {};  // nullptr: done
  std::optional<T> value = {};
  std::optional<Error> error = {};

  template <class Make>
  void run(Make&& make) {
    try {
      Result<T> result = make();
      result ? (void)(value = std::move(*result)) : (void)(error = result.error());
    } catch (const std::exception& e) {
      error = unavailable(std::string("an exception: ") + e.what());
    }
  }
  void wait(ThreadPool& pool) {
    if (ticket) pool.wait(ticket);
    ticket.reset();
  }
  void state(Archive& ar) {  // after wait()
    bool bad = error.has_value();
    ar(value, bad);
    if (!bad) return error.reset();
    if (ar.loading()) error.emplace();
    ar(error->kind, error->what);
  }
};

struct World::Scoring {
  Rank rank = 0;
  Round round = 0;
  Snapshot model = nullptr;  // empty if loaded
  Task<Evaluation> task = {};
  void state(Archive& ar) {
    ar(rank, round);
    task.state(ar);
  }
};

struct World::Slot {
  std::unique_ptr<Node> node = {};
  Learner* learner = nullptr;
  std::uint32_t site = 0;

  std::map<std::pair<std::uint32_t, TimerId>, std::uint64_t> timers = {};  // valid event's number
  std::shared_ptr<Task<StepResult>> running = {};
  Time duration{0};  // length of the running step
  Time paused_until{0};
  std::uint64_t held = 0;           // deferred network events
  Round rounds = 0;                 // last seen rounds_done()
  std::vector<Bytes> durable = {};  // log on disk
  Queue<Bytes> writing = {};        // records not durable yet
  Buffer votes = {};                // last votes that its node has kept
  std::uint64_t created_at = 0;     // events before this number belong to an earlier incarnation
  NodeFigures figures = {};

  bool crashed() const { return figures.crashed; }
};

// Passes an input to a node. Every input uses this function.
template <class Input>
void World::feed(Rank rank, Input&& input) {
  Slot& slot = *slots_[rank];
  input(*slot.node);
  if (const Round done = slot.node->strategy().rounds_done(); done > slot.rounds) {
    slot.rounds = done;
    progress_at_ = now_;
    if (observer_.on_round) observer_.on_round(now_, rank, done);
  }
  for (Watcher* watcher : watchers_)
    if (const Status status = watcher->after(*this, rank); !status) fail_run(status.error());
}

World::World(WorldConfig config, std::unique_ptr<Network> network,
             std::unique_ptr<ComputeTime> compute_time, Scorer scorer)
    : config_(std::move(config)),
      network_(std::move(network)),
      compute_time_(std::move(compute_time)),
      scorer_(std::move(scorer)),
      pool_(config_.threads, config_.on_thread_start) {
  LH_CHECK(config_.wire_scale > 0);
}

World::~World() = default;

void World::add(Place place, std::unique_ptr<Strategy> strategy, Learner* learner) {
  LH_CHECK(!started_ && place.self == slots_.size());
  auto slot = std::make_unique<Slot>();
  slot->site = sites_.try_emplace(place.me().site, std::uint32_t(sites_.size())).first->second;
  slot->learner = learner;
  slot->node = std::make_unique<Node>(std::move(place), std::move(strategy), learner, *this);
  slots_.push_back(std::move(slot));
}

Node& World::node(Rank rank) { return *slots_.at(rank)->node; }
const Node& World::node(Rank rank) const { return *slots_.at(rank)->node; }
const NodeFigures& World::figures(Rank rank) const { return slots_.at(rank)->figures; }

void World::start() {
  LH_CHECK(!slots_.empty() && slots_.size() == slots_[0]->node->place().size());
  started_ = true;
  unfinished_ = size();
  for (Rank rank = 0; rank < size(); ++rank)
    queue_.push(now_, {.kind = Event::Kind::start, .rank = rank});
}

Result<World::Ended> World::run(Time until) {
  for (;;) {
    if (stop_.exchange(false)) return Ended::stopped;
    const Result<bool> went_on = step(until);
    if (!went_on) return went_on.error();
    if (!*went_on) return unfinished_ == 0 ? Ended::finished : Ended::until;
  }
}

Result<bool> World::step(Time until) {
  if (!started_) start();
  while (!failure_ && unfinished_ > 0) {
    begin_due_faults();
    if (failure_ || unfinished_ == 0) break;
    const std::optional<Time> network = network_->next_event();
    if (!network && queue_.empty()) return fail_run(stuck()), *failure_;
    const bool from_network = network && (queue_.empty() || *network <= queue_.top().at);
    const Time at = from_network ? *network : queue_.top().at;
    if (at > until) {
      // The network may be ahead of the last event of a node. A restart at this time begins here.
      now_ = std::max(now_, until);
      return false;
    }
    if (from_network) {
      std::optional<NetworkEvent> notice = network_->advance();
      if (!notice || defer(*notice, at)) continue;
      now_ = at;
      take(std::move(*notice));
    } else {
      const Entry entry = queue_.pop();
      if (is_stale(entry) || defer(entry)) continue;
      now_ = at;
      take(entry);
    }
    ++counters_.events;
    if (is_stalled()) fail_run(stuck());
    if (failure_) return *failure_;
    return true;
  }
  if (failure_) return *failure_;
  return false;
}

// --- one event ----------------------------------------------------------------------------------

// Returns true for events without effect: a timer that was set again, or any event of a crashed
// node.
bool World::is_stale(const Entry& entry) const {
  const Event& e = entry.event;
  if (e.kind >= Event::Kind::fault_begins) return false;
  const Slot& slot = *slots_[e.rank];
  if (slot.crashed() || entry.sequence < slot.created_at) return true;
  if (e.kind != Event::Kind::timer) return false;
  const auto timer = slot.timers.find({e.a, TimerId(e.b)});
  return timer == slot.timers.end() || timer->second != entry.sequence;
}

// Moves a paused node's events to the end of the pause, in the same order.
bool World::defer(const Entry& entry) {
  const Event& e = entry.event;
  if (e.kind >= Event::Kind::fault_begins) return false;
  Slot& slot = *slots_[e.rank];
  if (entry.at >= slot.paused_until) return false;
  const std::uint64_t sequence = queue_.push(slot.paused_until, e);
  if (e.kind == Event::Kind::timer) slot.timers[{e.a, TimerId(e.b)}] = sequence;
  return true;
}

bool World::defer(NetworkEvent& notice, Time at) {
  const bool departed = notice.kind == NetworkEvent::Kind::departed;
  const Rank rank = departed ? notice.packet.from : notice.packet.to;
  Slot& slot = *slots_[rank];
  if (slot.crashed() || (at >= slot.paused_until && slot.held == 0)) return false;
  ++slot.held;
  held_.emplace(number_, std::move(notice));
  queue_.push(std::max(at, slot.paused_until),
              {.kind = Event::Kind::held, .rank = rank, .b = number_++});
  return true;
}

void World::take(const Entry& entry) {
  const Event& e = entry.event;
  switch (e.kind) {
    case Event::Kind::start:
      return feed(e.rank, [&](Node& node) { node.start(now_); });
    case Event::Kind::timer:
      slots_[e.rank]->timers.erase({e.a, TimerId(e.b)});
      return feed(e.rank,
                  [&](Node& node) { node.timer(now_, Path::from_bits(e.a), TimerId(e.b)); });
    case Event::Kind::stepped:
      return deliver_step(e.rank);
    case Event::Kind::scored:
      return deliver_score(e.b);
    case Event::Kind::given: {
      const auto input = given_.extract(e.b);
      return feed(e.rank, [&](Node& node) { LH_CHECK(node.feed(now_, input.mapped())); });
    }
    case Event::Kind::stored:
      return deliver_stored(e.rank, e.b);
    case Event::Kind::held: {
      --slots_[e.rank]->held;
      return take(std::move(held_.extract(e.b).mapped()));
    }
    case Event::Kind::report_reachability:
      return feed(e.rank, [&](Node& node) { node.unreachable(now_, e.a, e.b != 0); });
    case Event::Kind::fault_begins:
      return begin(e.b);
    case Event::Kind::fault_ends:
      return end(e.b);
    case Event::Kind::detect:
      return detect(e);
    case Event::Kind::rejoin_request:
      return rejoin_request(e.rank);
  }
}

void World::take(NetworkEvent notice) {
  Packet& packet = notice.packet;
  if (notice.kind == NetworkEvent::Kind::departed) {
    if (slots_[packet.from]->crashed()) return;
    return feed(packet.from, [&](Node& node) {
      node.writable(now_, packet.to, packet.service.service_class());
    });
  }
  Slot& slot = *slots_[packet.to];
  if (slot.crashed() || not_connected(packet.from, packet.to)) return;
  if (slots_[packet.from]->site != slot.site) slot.figures.wan_received += packet.bytes;
  if (packet.message.is_bulk()) progress_at_ = now_;
  for (Watcher* watcher : watchers_) watcher->delivering(now_, packet);
  feed(packet.to, [&](Node& node) {
    const Status status = node.deliver(now_, packet.from, packet.message);
    if (status) return;
    ++counters_.bad_messages;
    refused_ = name_of(packet.to) + " refused a message of " + name_of(packet.from) + ": " +
               status.error().what;
    if (observer_.on_bad_message)
      observer_.on_bad_message(now_, packet.to, packet.from, status.error());
  });
}

void World::deliver_step(Rank rank) {
  Slot& slot = *slots_[rank];
  const std::shared_ptr<Task<StepResult>> task = std::move(slot.running);
  task->wait(pool_);
  --computing_;
  progress_at_ = now_;
  slot.figures.computing += slot.duration;
  if (task->error) {
    task->error->what = name_of(rank) + ": " + task->error->what;
    return fail_run(*task->error);
  }
  task->value->elapsed = slot.duration;
  feed(rank, [&](Node& node) { node.stepped(now_, *task->value); });
}

void World::deliver_stored(Rank rank, std::uint64_t number) {
  Slot& slot = *slots_[rank];
  slot.durable.push_back(std::move(slot.writing.front()));
  slot.writing.pop_front();
  feed(rank, [&](Node& node) { node.stored(now_, number); });
}

void World::deliver_score(std::uint64_t number) {
  const auto node_of = scorings_.extract(number);
  Scoring& scoring = *node_of.mapped();
  scoring.task.wait(pool_);
  if (scoring.task.error) {
    scoring.task.error->what =
        "scoring of " + name_of(scoring.rank) + ": " + scoring.task.error->what;
    return fail_run(*scoring.task.error);
  }
  const Evaluation evaluation = *scoring.task.value;
  if (observer_.on_report)
    observer_.on_report(now_, scoring.rank, scoring.round, scoring.model, evaluation);
  feed(scoring.rank, [&](Node& node) { node.scored(now_, scoring.round, evaluation); });
}

// --- the end of the run -------------------------------------------------------------------------

std::string World::name_of(Rank rank) const {
  return "rank " + std::to_string(rank) + " (" + slots_[rank]->node->place().me().site + ")";
}

void World::fail_run(Error error) {
  if (failure_) return;
  if (!config_.repeat.empty()) error.what += " [" + config_.repeat + "]";
  failure_ = std::move(error);
}

std::string World::waiting_for() const {
  std::string text;
  for (Rank rank = 0; rank < size(); ++rank) {
    const Slot& slot = *slots_[rank];
    if (slot.crashed() || slot.figures.finished_at) continue;
    const std::string what = slot.node->waiting_for();
    text += "\n  " + name_of(rank) + ": " +
            (what.empty() ? "does not say what it waits for" : "waits for " + what);
  }
  return text;
}

Error World::stuck() const {
  return {Error::Kind::timed_out, "the run is stuck at " + std::to_string(seconds(now_)) +
                                      " s of virtual time: nothing is left to happen, but" +
                                      waiting_for() + (refused_.empty() ? "" : "\n  " + refused_)};
}

bool World::is_stalled() const {
  return now_ - progress_at_ > config_.patience && computing_ == 0 && !network_->has_bulk() &&
         unfinished_ > 0;
}

double World::compute_utilisation() const {
  double sum = 0, nodes = 0;
  for (const auto& slot : slots_) {
    const Time time = slot->figures.finished_at.value_or(now_);
    if (!slot->learner || time <= Time{0}) continue;
    sum += double(slot->figures.computing.count()) / double(time.count());
    ++nodes;
  }
  return nodes > 0 ? sum / nodes : 0;
}

// --- World as a Host: actions of nodes ----------------------------------------------------------

void World::notify_watchers(Rank rank, const Action& action) {
  for (Watcher* watcher : watchers_) watcher->acted(now_, rank, action);
}

// Counts the headers of all chunks if a phantom message stands for a run of chunks.
Packet World::to_packet(Rank from, Send send) {
  const Message& message = send.message;
  const Place& place = slots_[from]->node->place();
  const double body = double(message.body.size()) * config_.wire_scale;
  std::uint64_t messages = 1;
  if (message.body.is_phantom()) {
    const std::uint64_t chunk = place.chunk() * sizeof(float);
    messages = (message.body.size() + chunk - 1) / chunk;
  }
  const std::uint64_t bytes =
      messages * (kFrameHeader + message.head.size()) + std::uint64_t(std::llround(body));
  counters_.messages += messages;
  if (slots_[from]->site == slots_[send.to]->site) {
    counters_.lan_bytes += bytes;
  } else {
    // Relayed messages use two links.
    const bool relayed = config_.relayed.contains({slots_[from]->site, slots_[send.to]->site});
    counters_.wan_bytes += relayed ? 2 * bytes : bytes;
    counters_.wan_messages += relayed ? 2 * messages : messages;
    slots_[from]->figures.wan_sent += bytes;
  }
  const std::uint64_t unscaled =
      messages * (kFrameHeader + message.head.size()) + message.body.size();
  return {from,    send.to, bytes, send.service, std::move(send.message), std::uint32_t(messages),
          unscaled};
}

void World::send(Rank from, Send send) {
  if (slots_[from]->crashed() || !may_send(from, send.to, send.message)) return;
  if (!watchers_.empty()) notify_watchers(from, send);
  network_->submit(to_packet(from, std::move(send)), now_);
}

void World::set_timer(Rank node, const SetTimer& timer) {
  if (slots_[node]->crashed()) return;
  if (!watchers_.empty()) notify_watchers(node, timer);
  slots_[node]->timers[{timer.machine.bits(), timer.id}] =
      queue_.push(std::max(timer.at, now_), {.kind = Event::Kind::timer,
                                             .rank = node,
                                             .a = timer.machine.bits(),
                                             .b = std::uint64_t(timer.id)});
}

void World::cancel_timer(Rank node, const CancelTimer& timer) {
  if (!watchers_.empty()) notify_watchers(node, timer);
  slots_[node]->timers.erase({timer.machine.bits(), timer.id});
}

void World::compute(Rank node, ComputeStep step) {
  Slot& slot = *slots_[node];
  if (slot.crashed()) return;
  LH_CHECK(slot.learner && !slot.running);
  if (!watchers_.empty()) notify_watchers(node, step);
  slot.duration = compute_time_->duration(node, slot.figures.steps++, now_, step.work);
  slot.running = std::make_shared<Task<StepResult>>();
  auto run = [task = slot.running, learner = slot.learner, work = std::move(step.work)] {
    task->run([&] { return learner->step(work); });
  };
  if (slot.learner->params().empty()) {
    run();  // a phantom: cheaper than a hand-over
  } else {
    slot.running->ticket = pool_.submit(std::move(run));
  }
  ++computing_;
  queue_.push(now_ + slot.duration, {.kind = Event::Kind::stepped, .rank = node});
}

void World::report(Rank node, Report report) {
  const Slot& slot = *slots_[node];
  if (slot.crashed()) return;
  if (!watchers_.empty()) notify_watchers(node, report);
  Snapshot model = std::move(report.model);
  if (!model && slot.learner) {
    LH_CHECK(!slot.running);
    const std::span<const float> now = slot.learner->params();
    model = std::make_shared<const std::vector<float>>(whole_model(slot.learner, now));
  } else if (model && keeper(slot.learner)) {
    if (slot.running) slot.running->wait(pool_);  // kept values must not depend on threads
    model = std::make_shared<const std::vector<float>>(whole_model(slot.learner, *model));
  }
  auto scoring = std::make_shared<Scoring>();
  scoring->rank = node;
  scoring->round = report.round;
  scoring->model = model;
  if (model && !model->empty() && scorer_) {
    scoring->task.ticket = pool_.submit([this, scoring, model] {
      const std::lock_guard one_at_a_time(scoring_);
      scoring->task.run([&] { return scorer_(scoring->rank, *model); });
    });
  } else {
    scoring->task.value.emplace();
  }
  scorings_.emplace(number_, std::move(scoring));
  queue_.push(now_, {.kind = Event::Kind::scored, .rank = node, .b = number_++});
}

void World::summed(Rank node, Rank senior, Round round, const Evaluation& sum) {
  if (observer_.on_sum) observer_.on_sum(now_, node, senior, round, sum);
}

void World::record(Rank node, const Record& record) {
  if (!watchers_.empty()) notify_watchers(node, record);
  if (observer_.on_record) observer_.on_record(now_, node, record);
}

void World::give(Rank rank, Time at, Input input) {
  LH_CHECK(rank < size() && at >= now_);
  given_.emplace(number_, std::move(input));
  queue_.push(at, {.kind = Event::Kind::given, .rank = rank, .b = number_++});
}

const std::vector<Bytes>& World::durable(Rank rank) const { return slots_.at(rank)->durable; }

void World::append(Rank node, const Append& append) {
  Slot& slot = *slots_[node];
  if (slot.crashed()) return;
  // A restarted node's first record replaces a torn one.
  if (slot.writing.empty() && append.number == slot.durable.size()) slot.durable.pop_back();
  LH_CHECK(append.number == slot.durable.size() + slot.writing.size() + 1);
  if (!watchers_.empty()) notify_watchers(node, append);
  slot.writing.push_back(append.record);
  queue_.push(now_ + config_.disk, {.kind = Event::Kind::stored, .rank = node, .b = append.number});
}

void World::reply(Rank node, const Reply& reply) {
  if (slots_[node]->crashed()) return;
  if (!watchers_.empty()) notify_watchers(node, reply);
  if (observer_.on_reply) observer_.on_reply(now_, node, reply);
}

void World::finish(Rank node) {
  NodeFigures& figures = slots_[node]->figures;
  if (figures.crashed || figures.finished_at) return;
  if (!watchers_.empty()) notify_watchers(node, Finish{});
  figures.finished_at = now_;
  progress_at_ = now_;
  --unfinished_;
}

// Removes a node that the others have declared lost; a failure of any other node ends the run.
void World::fail(Rank node, const Error& error) {
  if (slots_[node]->crashed()) return;
  if (!watchers_.empty()) notify_watchers(node, Fail{error});
  for (const auto& other : slots_)
    if (!other->crashed() && !other->node->view().has(node)) return crash(node, error.what);
  fail_run(
      {error.kind, name_of(node) + " at " + std::to_string(seconds(now_)) + " s: " + error.what});
}

// --- faults -------------------------------------------------------------------------------------

// Two nodes have contact while no cause breaks it: a cut in either direction (which also stops
// acknowledgements), a pause, or a crash. A break that lasts for `detect` is reported to both.

void World::inject(const Fault& fault) {
  LH_CHECK(fault.rank < size() && fault.at >= now_);
  LH_CHECK(fault.kind != Fault::Kind::pause || fault.until != kForever);
  LH_CHECK(fault.kind != Fault::Kind::cut || (fault.peer < size() && fault.peer != fault.rank));
  const std::uint64_t number = faults_.size();
  faults_.push_back(fault);
  if (fault.at_event) {
    LH_CHECK(fault.kind == Fault::Kind::crash);
    by_event_.emplace(*fault.at_event, number);
    return;
  }
  queue_.push(fault.at, {.kind = Event::Kind::fault_begins, .b = number});
  if (fault.kind != Fault::Kind::crash && fault.until != kForever)
    queue_.push(fault.until, {.kind = Event::Kind::fault_ends, .b = number});
}

void World::begin_due_faults() {
  while (!by_event_.empty() && by_event_.begin()->first <= counters_.events) {
    const std::uint64_t fault = by_event_.begin()->second;
    by_event_.erase(by_event_.begin());
    begin(fault);
  }
}

void World::begin(std::uint64_t number) {
  const Fault fault = faults_.at(number);
  switch (fault.kind) {
    case Fault::Kind::crash:
      return crash(fault.rank, "crashed");
    case Fault::Kind::cut:
      cut_direction(fault.rank, fault.peer, true);
      if (!fault.one_way) cut_direction(fault.peer, fault.rank, true);
      return;
    case Fault::Kind::pause: {
      Time& until = slots_[fault.rank]->paused_until;
      until = std::max(until, fault.until);
      for (Rank other = 0; other < size(); ++other) lose_contact(fault.rank, other);
    }
  }
}

void World::end(std::uint64_t number) {
  const Fault fault = faults_.at(number);
  if (fault.kind == Fault::Kind::cut) {
    cut_direction(fault.rank, fault.peer, false);
    if (!fault.one_way) cut_direction(fault.peer, fault.rank, false);
  } else if (fault.kind == Fault::Kind::pause) {
    for (Rank other = 0; other < size(); ++other) regain_contact(fault.rank, other);
  }
}

void World::crash(Rank rank, const std::string& why) {
  Slot& slot = *slots_[rank];
  if (slot.crashed()) return;
  slot.figures.crashed = true;
  slot.timers.clear();
  if (slot.running) {
    slot.running->wait(pool_);  // a caller may read the learner of a crashed node
    --computing_;
  }
  if (config_.tears_writes && !slot.writing.empty()) {
    const Buffer& torn = *slot.writing.front();
    slot.durable.push_back(share({torn.begin(), torn.begin() + std::ptrdiff_t(torn.size() / 2)}));
  }
  slot.writing.clear();
  if (!slot.figures.finished_at) --unfinished_;
  network_->crash(rank, now_);
  for (Watcher* watcher : watchers_) watcher->crashed(now_, rank);
  if (observer_.on_lost) observer_.on_lost(now_, rank, why);
  for (Rank other = 0; other < size(); ++other) {
    strangers_.erase(std::minmax(rank, other));
    // The two nodes had no contact since a crash: the break continues, and this crash is its cause
    // now.
    if (not_connected_.erase(std::minmax(rank, other)) > 0)
      --disconnections_.at(std::minmax(rank, other)).causes;
    lose_contact(rank, other);
  }
  if (std::all_of(slots_.begin(), slots_.end(), [](const auto& s) { return s->crashed(); }))
    fail_run(unavailable("no node is left; the last was " + name_of(rank) + ": " + why));
}

void World::cut_direction(Rank from, Rank to, bool cut) {
  std::uint32_t& times = cuts_[{from, to}];
  if (cut && times++ == 0) {
    network_->cut(from, to, now_);
    lose_contact(from, to);
  } else if (!cut && --times == 0) {
    network_->heal(from, to, now_);
    regain_contact(from, to);
  }
}

void World::lose_contact(Rank a, Rank b) {
  if (a == b) return;
  Disconnection& contact = disconnections_[std::minmax(a, b)];
  if (contact.causes++ > 0) return;
  contact.number = number_++;
  queue_.push(now_ + config_.detect, {.kind = Event::Kind::detect,
                                      .rank = std::min(a, b),
                                      .a = std::max(a, b),
                                      .b = contact.number});
}

void World::regain_contact(Rank a, Rank b) {
  if (a == b) return;
  const auto it = disconnections_.find(std::minmax(a, b));
  LH_CHECK(it != disconnections_.end());
  if (--it->second.causes > 0) return;
  const bool reported = it->second.reported;
  disconnections_.erase(it);
  if (!reported) return;
  report_reachability(a, b, false);
  report_reachability(b, a, false);
}

void World::detect(const Event& event) {
  const auto it = disconnections_.find({event.rank, event.a});
  if (it == disconnections_.end() || it->second.number != event.b) return;
  it->second.reported = true;
  report_reachability(event.rank, event.a, true);
  report_reachability(event.a, event.rank, true);
}

void World::report_reachability(Rank rank, Rank peer, bool unreachable) {
  if (slots_[rank]->crashed()) return;
  queue_.push(
      std::max(now_, slots_[rank]->paused_until),
      {.kind = Event::Kind::report_reachability, .rank = rank, .a = peer, .b = unreachable});
}

// Restarts a node, as over sockets: it calls all other nodes. Until the members have admitted it,
// both exchange only messages of membership.

void World::restart(Place place, std::unique_ptr<Strategy> strategy, Learner* learner,
                    bool forgets) {
  const Rank rank = place.self;
  Slot& slot = *slots_.at(rank);
  LH_CHECK(started_ && slot.crashed() && place.comes_back());
  slot.node = std::make_unique<Node>(std::move(place), std::move(strategy), learner, *this);
  if (forgets) slot.votes.clear();
  if (!slot.votes.empty()) LH_CHECK(slot.node->remember(now_, share(Buffer(slot.votes))));
  slot.learner = learner;
  slot.running.reset();
  slot.paused_until = Time{0};
  slot.held = slot.rounds = 0;
  slot.figures.crashed = false;
  slot.figures.finished_at.reset();
  ++unfinished_;
  network_->revive(rank);
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank) continue;
    if (slots_[other]->crashed()) {
      regain_contact(rank, other);  // the other node's crash remains as a cause
    } else {
      not_connected_.insert(std::minmax(rank, other));
    }
  }
  for (Watcher* watcher : watchers_) watcher->restarted(now_, rank);
  slot.created_at = queue_.push(now_, {.kind = Event::Kind::start, .rank = rank});
  queue_.push(now_, {.kind = Event::Kind::rejoin_request, .rank = rank});
}

void World::rejoin_request(Rank rank) {
  bool again = false, over = true;
  for (const auto& slot : slots_)
    over &= slot->crashed() || slot->node->finished() || slot->node->outside();
  if (over && slots_[rank]->node->outside()) return crash(rank, "the run has ended without it");
  for (Rank other = 0; other < size(); ++other) {
    if (!not_connected(rank, other)) continue;
    const bool cut = cuts(rank, other) || cuts(other, rank);
    const Node& node = *slots_[other]->node;
    if (cut || slots_[other]->crashed() || node.outside() || node.finished()) {
      again = true;
    } else if (connect(rank, other)) {
      strangers_.insert(std::minmax(rank, other));
      feed(other, [&](Node& node) { node.returned(now_, rank); });
    }
  }
  if (again || slots_[rank]->node->outside())
    queue_.push(now_ + 1s, {.kind = Event::Kind::rejoin_request, .rank = rank});
}

bool World::connect(Rank a, Rank b) {
  strangers_.erase(std::minmax(a, b));
  if (not_connected_.erase(std::minmax(a, b)) == 0) return false;
  regain_contact(a, b);
  return true;
}

bool World::may_send(Rank from, Rank to, const Message& message) const {
  if (not_connected(from, to)) return false;
  return Node::is_of_membership(message) || !strangers_.contains(std::minmax(from, to));
}

void World::keep(Rank node, const Buffer& votes) {
  if (!slots_[node]->crashed()) slots_[node]->votes = votes;
}

// Connects nodes that share a view before they have called each other.
void World::follow(Rank node, const View& before, const View& now) {
  const bool let_in = before.epoch == 0 && slots_[node]->node->place().comes_back();
  for (const Rank rank : now.live)
    if (rank != node && (let_in || !before.has(rank))) (void)connect(node, rank);
  if (observer_.on_view && before.live != now.live) observer_.on_view(now_, node, now);
}

// --- Saving and loading a World -----------------------------------------------------------------

void World::state(Archive& ar) {
  for (const auto& slot : slots_) LH_CHECK(slot->created_at == 0);
  ar.expect("world of " + std::to_string(size()) + " nodes");
  ar(now_, started_, unfinished_, progress_at_, computing_, queue_, held_, number_, faults_,
     by_event_, cuts_, disconnections_, counters_);
  network_->state(ar);
  for (const auto& slot : slots_) {
    if (ar.failed()) return;
    // Saved as done although its virtual end is later: the result is the same.
    bool running = slot->running != nullptr;
    if (running) slot->running->wait(pool_);
    ar(running);
    if (ar.loading()) slot->running = running ? std::make_shared<Task<StepResult>>() : nullptr;
    if (running) slot->running->state(ar);
    slot->node->state(ar);
    if (slot->learner) slot->learner->state(ar);
    ar(slot->durable, slot->writing);
    ar(slot->timers, slot->duration, slot->paused_until, slot->held, slot->rounds, slot->figures);
  }
  std::uint64_t given = given_.size();
  ar(given);
  if (ar.loading()) given_.clear();
  for (auto it = given_.begin(); given > 0 && !ar.failed(); --given) {
    std::uint64_t number = ar.loading() ? 0 : it->first;
    Input loaded;
    Input& input = ar.loading() ? loaded : (it++)->second;
    ar(number);
    archive_input(ar, input);
    if (ar.loading()) given_.emplace(number, std::move(loaded));
  }
  std::uint64_t scorings = scorings_.size();
  ar(scorings);
  if (ar.loading()) {
    scorings_.clear();
    for (; scorings > 0 && !ar.failed(); --scorings) {
      std::uint64_t number = 0;
      auto scoring = std::make_shared<Scoring>();
      ar(number, *scoring);
      scorings_.emplace(number, std::move(scoring));
    }
  } else {
    for (const auto& [number, scoring] : scorings_) {
      std::uint64_t key = number;
      scoring->task.wait(pool_);
      ar(key, *scoring);
    }
  }
  for (Watcher* watcher : watchers_) watcher->state(ar);
  check_loaded(ar);
}

// Checks all indices: a damaged file that still parses must not cause an access out of bounds.
void World::check_loaded(Archive& ar) const {
  bool good = unfinished_ <= size();
  for (const auto& entry : queue_.entries()) {
    const Event& e = entry.event;
    good &= e.rank < size();
    if (e.kind == Event::Kind::detect || e.kind == Event::Kind::report_reachability)
      good &= e.a < size();
    if (e.kind == Event::Kind::scored) good &= scorings_.contains(e.b);
    if (e.kind == Event::Kind::given) good &= given_.contains(e.b);
    if (e.kind == Event::Kind::stored)
      good &= slots_[e.rank]->crashed() || !slots_[e.rank]->writing.empty();
    if (e.kind == Event::Kind::held) good &= held_.contains(e.b);
    if (e.kind == Event::Kind::fault_begins || e.kind == Event::Kind::fault_ends)
      good &= e.b < faults_.size();
    if (good && e.kind == Event::Kind::stepped)
      good &= slots_[e.rank]->crashed() || slots_[e.rank]->running != nullptr;
  }
  for (const Fault& fault : faults_) good &= fault.rank < size() && fault.peer < size();
  for (const auto& [number, scoring] : scorings_) good &= scoring->rank < size();
  for (const auto& [number, notice] : held_)
    good &= notice.packet.from < size() && notice.packet.to < size();
  if (!good) ar.fail("names a node or an event that is not there");
}

}  // namespace longhaul::sim
