// Saving and loading a World.
#include <algorithm>

#include "longhaul/sim/world_slot.h"

namespace longhaul::sim {

void World::state(Archive& ar) {
  for (const auto& slot : slots_) LH_CHECK(slot->created_at == 0);
  ar.expect("world of " + std::to_string(size()) + " nodes");
  ar(now_, started_, unfinished_, progress_at_, computing_, queue_, held_, number_, faults_,
     by_event_, cuts_, disconnections_, counters_);
  network_->state(ar);
  for (const auto& slot : slots_) {
    if (ar.failed()) return;
    // Saved as done although virtual time has not come so far: nobody can tell the difference.
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

// A torn file that still parses must not send us out of bounds.
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
