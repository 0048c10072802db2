// A node that begins anew, as over sockets: it calls all the others; whoever has not yet declared
// the one before lost does not speak with it.
#include "longhaul/sim/world_slot.h"

namespace longhaul::sim {

using namespace std::chrono_literals;

void World::restart(Place place, std::unique_ptr<Strategy> strategy, Learner* learner) {
  const Rank rank = place.self;
  Slot& slot = *slots_.at(rank);
  LH_CHECK(started_ && slot.crashed() && place.comes_back());
  slot.node = std::make_unique<Node>(std::move(place), std::move(strategy), learner, *this);
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
      regain_contact(rank, other);  // what is left of the break is the other's
    } else {
      apart_.insert(std::minmax(rank, other));
    }
  }
  for (Watcher* watcher : watchers_) watcher->restarted(now_, rank);
  slot.born = queue_.push(now_, {.kind = Event::Kind::start, .rank = rank});
  queue_.push(now_, {.kind = Event::Kind::knock, .rank = rank});
}

void World::knock(Rank rank) {
  bool again = false;
  for (Rank other = 0; other < size(); ++other) {
    if (!apart(rank, other)) continue;
    if (slots_[other]->node->view().has(rank)) {
      again = true;
    } else if (meet(rank, other)) {
      feed(other, [&](Node& node) { node.returned(now_, rank); });
    }
  }
  if (again) queue_.push(now_ + 1s, {.kind = Event::Kind::knock, .rank = rank});
}

bool World::meet(Rank a, Rank b) {
  if (apart_.erase(std::minmax(a, b)) == 0) return false;
  regain_contact(a, b);
  return true;
}

// Nodes may be in one view before they have called each other.
void World::follow(Rank node, const View& before, const View& now) {
  const bool let_in = before.epoch == 0 && slots_[node]->node->place().comes_back();
  for (const Rank rank : now.live)
    if (rank != node && (let_in || !before.has(rank))) (void)meet(node, rank);
}

}  // namespace longhaul::sim
