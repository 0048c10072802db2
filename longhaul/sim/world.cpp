#include "longhaul/sim/world.h"

#include <algorithm>

#include "longhaul/sim/world_slot.h"

namespace longhaul::sim {

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
      // The network may be ahead of the last event of a node: who restarts a node begins here.
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

// An event that nobody waits for any more: a timer set anew, anything for a dead node.
bool World::is_stale(const Entry& entry) const {
  const Event& e = entry.event;
  if (e.kind >= Event::Kind::fault_begins) return false;
  const Slot& slot = *slots_[e.rank];
  if (slot.crashed() || entry.sequence < slot.created_at) return true;
  if (e.kind != Event::Kind::timer) return false;
  const auto timer = slot.timers.find({e.a, TimerId(e.b)});
  return timer == slot.timers.end() || timer->second != entry.sequence;
}

// A paused node's events happen when it goes on, in the same order.
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

// --- how it ends --------------------------------------------------------------------------------

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

}  // namespace longhaul::sim
