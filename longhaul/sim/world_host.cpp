// World as a Host: what nodes ask for.
#include <algorithm>
#include <cmath>

#include "longhaul/core/kept_values.h"
#include "longhaul/sim/world_slot.h"

namespace longhaul::sim {

void World::notify_watchers(Rank rank, const Action& action) {
  for (Watcher* watcher : watchers_) watcher->acted(now_, rank, action);
}

// A phantom that stands for a run of chunks has the headers of all of them.
Packet World::to_packet(Rank from, Send send) {
  const Message& message = send.message;
  const Place& place = slots_[from]->node->place();
  std::uint64_t messages = 1;
  if (message.body.is_phantom())
    messages = (message.body.size() + place.chunk_bytes - 1) / place.chunk_bytes;
  const double body = double(message.body.size()) * config_.wire_scale;
  const std::uint64_t bytes =
      messages * (kFrameHeader + message.head.size()) + std::uint64_t(std::llround(body));
  counters_.messages += messages;
  if (slots_[from]->site == slots_[send.to]->site) {
    counters_.lan_bytes += bytes;
  } else {
    // What is relayed goes over two links.
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
    if (slot.running) slot.running->wait(pool_);  // what it keeps would depend on the threads
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
  // What a restarted node writes replaces a torn record.
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

// A node that the others have declared lost goes alone; any other takes the run with it.
void World::fail(Rank node, const Error& error) {
  if (slots_[node]->crashed()) return;
  if (!watchers_.empty()) notify_watchers(node, Fail{error});
  for (const auto& other : slots_)
    if (!other->crashed() && !other->node->view().has(node)) return crash(node, error.what);
  fail_run(
      {error.kind, name_of(node) + " at " + std::to_string(seconds(now_)) + " s: " + error.what});
}

}  // namespace longhaul::sim
