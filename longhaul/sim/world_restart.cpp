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
      not_connected_.insert(std::minmax(rank, other));
    }
  }
  for (Watcher* watcher : watchers_) watcher->restarted(now_, rank);
  slot.created_at = queue_.push(now_, {.kind = Event::Kind::start, .rank = rank});
  queue_.push(now_, {.kind = Event::Kind::rejoin_request, .rank = rank});
}

void World::rejoin_request(Rank rank) {
  bool again = false;
  for (Rank other = 0; other < size(); ++other) {
    if (!not_connected(rank, other)) continue;
    if (slots_[other]->node->view().has(rank)) {
      again = true;
    } else if (connect(rank, other)) {
      feed(other, [&](Node& node) { node.returned(now_, rank); });
    }
  }
  if (again) queue_.push(now_ + 1s, {.kind = Event::Kind::rejoin_request, .rank = rank});
}

bool World::connect(Rank a, Rank b) {
  if (not_connected_.erase(std::minmax(a, b)) == 0) return false;
  regain_contact(a, b);
  return true;
}

// Nodes may be in one view before they have called each other.
void World::follow(Rank node, const View& before, const View& now) {
  const bool let_in = before.epoch == 0 && slots_[node]->node->place().comes_back();
  for (const Rank rank : now.live)
    if (rank != node && (let_in || !before.has(rank))) (void)connect(node, rank);
  if (observer_.on_view && before.live != now.live) observer_.on_view(now_, node, now);
}

}  // namespace longhaul::sim
