// Faults and what nodes are told of them. Two nodes have contact while no cause breaks it: a cut
// in either direction (acknowledgements do not come back either), a pause, a crash. A break that
// lasts for `detect` is told to both.
#include <algorithm>

#include "longhaul/sim/world_slot.h"

namespace longhaul::sim {

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
    slot.running->wait(pool_);  // for whoever looks at the learner of a crashed node
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
    // Those two never met since a crash: the break goes on, and this crash is its cause now.
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

}  // namespace longhaul::sim
