// A node that begins anew, as over sockets: it calls all the others. Until the members have let it
// in, it exchanges messages of membership with them alone.
#include "longhaul/sim/world_slot.h"

namespace longhaul::sim {

using namespace std::chrono_literals;

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

// Nodes may be in one view before they have called each other.
void World::follow(Rank node, const View& before, const View& now) {
  const bool let_in = before.epoch == 0 && slots_[node]->node->place().comes_back();
  for (const Rank rank : now.live)
    if (rank != node && (let_in || !before.has(rank))) (void)connect(node, rank);
  if (observer_.on_view && before.live != now.live) observer_.on_view(now_, node, now);
}

}  // namespace longhaul::sim
