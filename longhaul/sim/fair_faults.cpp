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
  reset_connection(c, now);
  if (drop_tail()) estimates_[index] = {.rate = {}, .grows_since = now};
  limit(index);
  mark(now);
  wake_ups_.set(index, WakeUpQueue::kNever);
}

void FairNetwork::cut(Rank from, Rank to, Time now) {
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    if (connections_[i].from == from && connections_[i].to == to) stop(i, now);
  in_flight_.cut(from, to, [](const auto&) {});
}

void FairNetwork::heal(Rank from, Rank to, Time now) {
  for (const std::uint32_t slot : in_flight_.heal(from, to)) begin_sending(slot, now);
}

void FairNetwork::crash(Rank rank, Time now) {
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    if (connections_[i].from == rank) stop(i, now);
  in_flight_.crash(rank, [](const auto& flight) { return !flight.left; });
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
  ar(multicast_links_);
  if (ar.loading())
    for (const auto& [from, links] : multicast_links_) {
      const auto flow = multicast_.find(from);
      const bool good = flow != multicast_.end() && !links.empty() &&
                        std::ranges::all_of(links, [&](auto one) { return rates_.has_link(one); });
      if (!good) return ar.fail("holds a multicast over other links");
      rates_.set_links(flow->second.front(), links);
    }
  rates_.state(ar);
  for (Links& site : sites_) ar(site.sends, site.gets);
  for (DirectedPair& pair : pairs_) ar(pair.busy, pair.in_burst);
  for (Estimating& e : estimates_) ar(e);
  ar(segments_, unsettled_at_, waits_at_, in_flight_, deliveries_, lost_);
  if (!ar.loading()) return;
  check_loaded(ar);
  if (ar.failed()) return;
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    trace_wake_ups_.set(i, segments_[i].until);
    set(config_.wan.traces[i], segments_[i].value);
  }
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    wake_ups_.set(i, wake_of(connections_[i]));
}

// As PacketsInFlight::good().
void FairNetwork::check_loaded(Archive& ar) const {
  bool good = in_flight_.good() && segments_.size() == config_.wan.traces.size() &&
              unsettled_at_.has_value() == rates_.unsettled();
  for (const auto& entry : deliveries_.entries()) good &= in_flight_.has(entry.event.slot);
  std::vector<std::uint32_t> flows(pairs_.size()), sent(sites_.size()), got(sites_.size());
  for (const Connection& c : connections_) {
    good &= (c.mode == Mode::idle) == c.queue.empty() && c.mode <= Mode::flowing;
    for (const std::uint32_t slot : c.queue) good &= in_flight_.has(slot);
    good &= c.windows.empty() || c.windows.size() == streams(c);
    for (const Stream& stream : c.windows) good &= stream.window.good();
    if (drop_tail()) good &= estimates_[std::size_t(&c - connections_.data())].rate.good();
    if (c.mode != Mode::flowing || c.pair == kNone || !c.has_tcp()) continue;
    ++flows[c.pair], ++sent[pairs_[c.pair].from], ++got[pairs_[c.pair].to];
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) good &= pairs_[i].busy.flows == flows[i];
  for (std::size_t i = 0; i < sites_.size(); ++i)
    good &= sites_[i].sends.flows == sent[i] && sites_[i].gets.flows == got[i];
  if (!good) ar.fail("names a packet or a node that is not there");
}

}  // namespace longhaul::sim
