// Cuts and crashes; saving and loading.
#include <string>
#include <tuple>
#include <utility>

#include "longhaul/sim/fair_network.h"

namespace longhaul::sim {

std::uint32_t FairNetwork::take_slot() {
  if (free_slots_.empty()) {
    flights_.emplace_back();
    return std::uint32_t(flights_.size() - 1);
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void FairNetwork::free_slot(std::uint32_t slot) {
  const std::uint32_t use = flights_[slot].use + 1;
  flights_[slot] = {};
  flights_[slot].use = use;
  free_slots_.push_back(slot);
}

// Nothing is in its queue any more, and what comes begins as a new connection does.
void FairNetwork::stop(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  c.queue.clear();
  c.mode = Mode::idle;
  c.idle_since = now;
  c.doubles = Time{0};
  c.window_rate = first_rate(c);
  c.slow = c.reliable() && c.window_rate < flow::kUnlimited;
  shares_.set_busy(index, false);
  limit(index);
  mark(now);
  wakes_.set(index, Wakes::kNever);
}

// Takes every flight for which pick(flight) says so off its way, after its connection has stopped.
template <class Pick>
void FairNetwork::ground(Pick&& pick) {
  for (std::uint32_t slot = 0; slot < flights_.size(); ++slot) {
    Flight& flight = flights_[slot];
    if (!flight.flying) continue;
    const bool bulk = flight.packet.message.is_bulk();
    if (!pick(flight)) continue;
    bulk_ -= bulk;
    free_slot(slot);
  }
}

void FairNetwork::cut(Rank from, Rank to, Time now) {
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    if (connections_[i].from == from && connections_[i].to == to) stop(i, now);
  auto& parked = cut_[{from, to}];
  ground([&](Flight& f) {
    if (f.packet.from != from || f.packet.to != to) return false;
    parked.emplace(f.number, Parked{std::move(f.packet), f.told});
    return true;
  });
}

void FairNetwork::heal(Rank from, Rank to, Time now) {
  auto way = cut_.extract({from, to});
  if (way.empty()) return;
  for (auto& [number, parked] : way.mapped())
    take_off(std::move(parked.packet), number, parked.told, now);
}

void FairNetwork::crash(Rank rank, Time now) {
  dead_[rank] = true;
  for (auto& [way, parked] : cut_) {
    if (way.first == rank || way.second == rank) parked.clear();
  }
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    if (connections_[i].from == rank) stop(i, now);
  ground([&](Flight& f) { return f.packet.from == rank && !f.left; });
}

void FairNetwork::state(Archive& ar) {
  ar.expect("fair network of " + std::to_string(config_.site_of.size()) + " nodes");
  using Key = std::tuple<Rank, Rank, Service::Delivery, std::uint8_t>;
  std::vector<Key> keys;
  for (const Connection& c : connections_)
    keys.emplace_back(c.from, c.to, c.service.delivery, c.service.priority);
  ar(keys);
  if (ar.loading()) {
    for (const auto& [from, to, delivery, priority] : keys) {
      if (from >= dead_.size() || to >= dead_.size() || priority > 7)
        return ar.fail("names a node that is not there");
      connection(from, to, {.delivery = delivery, .priority = priority});
    }
    if (connections_.size() != keys.size()) return ar.fail("holds other connections");
  }
  for (Connection& c : connections_) ar(c);
  shares_.state(ar);
  ar(stretches_, dirty_, flights_, free_slots_, deliveries_, number_, bulk_, lost_, dead_, cut_);
  if (!ar.loading()) return;
  check_loaded(ar);
  if (ar.failed()) return;
  const std::optional<Time> dirty = std::exchange(dirty_, std::nullopt);
  for (std::uint32_t i = 0; i < stretches_.size(); ++i) {
    trace_wakes_.set(i, stretches_[i].until);
    apply(config_.wan.traces[i], stretches_[i].value, dirty.value_or(Time{0}));
  }
  dirty_ = dirty;
  for (std::uint32_t i = 0; i < connections_.size(); ++i) wakes_.set(i, wake_of(connections_[i]));
}

// A torn file that still parses must not send us out of bounds.
void FairNetwork::check_loaded(Archive& ar) const {
  bool good = dead_.size() == nodes_.size() && stretches_.size() == config_.wan.traces.size() &&
              dirty_.has_value() == shares_.unsettled();
  for (const std::uint32_t slot : free_slots_) good &= slot < flights_.size();
  for (const auto& entry : deliveries_.entries()) good &= entry.event.slot < flights_.size();
  for (const Connection& c : connections_) {
    good &= (c.mode == Mode::idle) == c.queue.empty() && c.mode <= Mode::flowing;
    for (const std::uint32_t slot : c.queue) good &= slot < flights_.size();
  }
  const auto check = [&](const Packet& packet) {
    good &= packet.from < dead_.size() && packet.to < dead_.size() && packet.chunks > 0;
  };
  for (const Flight& flight : flights_) check(flight.packet);
  for (const auto& [way, parked] : cut_)
    for (const auto& [number, one] : parked) check(one.packet);
  if (!good) ar.fail("names a packet or a node that is not there");
}

}  // namespace longhaul::sim
