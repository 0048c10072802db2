// Cuts and crashes; saving and loading.
#include <string>
#include <tuple>
#include <utility>

#include "longhaul/sim/fair_network.h"

namespace longhaul::sim {

// Nothing is in its queue any more, and what comes begins as a new connection does.
void FairNetwork::stop(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  c.queue.clear();
  end_flow(c, index, now);
  renew(c, now);
  limit(index);
  mark(now);
  wakes_.set(index, Wakes::kNever);
}

void FairNetwork::cut(Rank from, Rank to, Time now) {
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    if (connections_[i].from == from && connections_[i].to == to) stop(i, now);
  flights_.cut(from, to, [](const auto&) {});
}

void FairNetwork::heal(Rank from, Rank to, Time now) {
  for (const std::uint32_t slot : flights_.heal(from, to)) take_off(slot, now);
}

void FairNetwork::crash(Rank rank, Time now) {
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    if (connections_[i].from == rank) stop(i, now);
  flights_.crash(rank, [](const auto& flight) { return !flight.left; });
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
      if (from >= nodes_.size() || to >= nodes_.size() || priority > 7)
        return ar.fail("names a node that is not there");
      connection(from, to, {.delivery = delivery, .priority = priority}, Time{0});
    }
    if (connections_.size() != keys.size()) return ar.fail("holds other connections");
  }
  for (Connection& c : connections_) ar(c);
  shares_.state(ar);
  for (Links& site : sites_) ar(site.sends, site.gets);
  for (Way& way : ways_) ar(way.busy);
  ar(stretches_, dirty_, flights_, deliveries_, lost_);
  if (!ar.loading()) return;
  check_loaded(ar);
  if (ar.failed()) return;
  for (std::uint32_t i = 0; i < stretches_.size(); ++i) {
    trace_wakes_.set(i, stretches_[i].until);
    set(config_.wan.traces[i], stretches_[i].value);
  }
  for (std::uint32_t i = 0; i < connections_.size(); ++i) wakes_.set(i, wake_of(connections_[i]));
}

// As Flights::good().
void FairNetwork::check_loaded(Archive& ar) const {
  bool good = flights_.good() && stretches_.size() == config_.wan.traces.size() &&
              dirty_.has_value() == shares_.unsettled();
  for (const auto& entry : deliveries_.entries()) good &= flights_.has(entry.event.slot);
  std::vector<std::uint32_t> flows(ways_.size()), sent(sites_.size()), got(sites_.size());
  for (const Connection& c : connections_) {
    good &= (c.mode == Mode::idle) == c.queue.empty() && c.mode <= Mode::flowing;
    for (const std::uint32_t slot : c.queue) good &= flights_.has(slot);
    good &= c.windows.empty() || c.windows.size() == streams(c);
    for (const Stream& stream : c.windows) good &= stream.window.good();
    if (c.mode != Mode::flowing || c.way == kNone || !c.reliable()) continue;
    ++flows[c.way], ++sent[ways_[c.way].from], ++got[ways_[c.way].to];
  }
  for (std::size_t i = 0; i < ways_.size(); ++i) good &= ways_[i].busy.flows == flows[i];
  for (std::size_t i = 0; i < sites_.size(); ++i)
    good &= sites_[i].sends.flows == sent[i] && sites_[i].gets.flows == got[i];
  if (!good) ar.fail("names a packet or a node that is not there");
}

}  // namespace longhaul::sim
