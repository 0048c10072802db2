#include "longhaul/sim/fifo_network.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace longhaul::sim {
namespace {

Time occupancy(std::uint64_t bytes, const Rate& rate) {
  if (!rate) return Time{0};
  return Time{std::int64_t(std::llround(double(bytes) * 1e9 / *rate))};
}

void check_rate(const Rate& rate) { LH_CHECK(!rate || *rate > 0); }

}  // namespace

FifoNetwork::FifoNetwork(FifoConfig config) : config_(std::move(config)) {
  for (const auto& site : config_.sites) {
    for (const Rate& rate : {site.up, site.down, site.lan}) check_rate(rate);
    up_.push_back({site.up});
    down_.push_back({site.down});
  }
  check_rate(config_.link.rate);
  for (const auto& [pair, link] : config_.links) {
    LH_CHECK(pair.first < config_.sites.size() && pair.second < config_.sites.size());
    check_rate(link.rate);
  }
  for (const std::uint32_t site : config_.site_of) {
    LH_CHECK(site < config_.sites.size());
    lan_out_.push_back({config_.sites[site].lan});
    lan_in_.push_back({config_.sites[site].lan});
  }
  dead_.resize(config_.site_of.size());
}

const FifoConfig::Link& FifoNetwork::link(std::uint32_t from, std::uint32_t to) const {
  const auto it = config_.links.find({from, to});
  return it == config_.links.end() ? config_.link : it->second;
}

FifoNetwork::Span FifoNetwork::pass(Server& server, Span arriving, std::uint64_t bytes) {
  const Time start = std::max(arriving.start, server.free_at);
  server.free_at = start + occupancy(bytes, server.rate);
  return {start, std::max(server.free_at, arriving.end)};
}

void FifoNetwork::submit(Packet packet, Time now) {
  LH_CHECK(packet.from < dead_.size() && packet.to < dead_.size());
  const std::uint64_t number = number_++;
  if (dead_[packet.from] || dead_[packet.to]) return;
  if (auto way = cut_.find({packet.from, packet.to}); way != cut_.end()) {
    way->second.emplace(number, Parked{std::move(packet), false});
    return;
  }
  launch(std::move(packet), number, false, now);
}

// The stages before the downlink serve one sender's site, in order of submission, so their times
// are known at once. The downlink is served in order of arrival: an event.
void FifoNetwork::launch(Packet packet, std::uint64_t number, bool departed, Time now) {
  const std::uint32_t slot = take_slot();
  Flight& flight = flights_[slot];
  const std::uint32_t from = config_.site_of[packet.from], to = config_.site_of[packet.to];
  const bool lan = from == to;
  Time delay;
  if (lan) {
    flight.span = pass(lan_out_[packet.from], {now, now}, packet.bytes);
    delay = config_.sites[from].lan_delay;
  } else {
    flight.span = pass(up_[from], {now, now}, packet.bytes);
    const FifoConfig::Link& way = link(from, to);
    if (way.rate) {
      Time& free_at = pair_free_at_[{from, to}];
      Server server{way.rate, free_at};
      flight.span = pass(server, flight.span, packet.bytes);
      free_at = server.free_at;
    }
    delay = way.delay;
  }
  const bool bulk = packet.message.is_bulk();
  const Rate& last_rate = lan ? lan_in_[packet.to].rate : down_[to].rate;
  flight.number = number;
  flight.flying = true;
  flight.departed = departed;
  flight.leaves = flight.span.end;
  flight.packet = std::move(packet);
  bulk_ += bulk;
  if (bulk && !departed) events_.push(flight.leaves, {Event::Kind::departs, slot, flight.use});
  flight.span.start += delay;
  flight.span.end += delay;
  if (last_rate) {
    events_.push(flight.span.start, {Event::Kind::arrives, slot, flight.use});
  } else {
    events_.push(flight.span.end, {Event::Kind::delivers, slot, flight.use});
  }
}

std::optional<Time> FifoNetwork::next_event() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().at;
}

std::optional<Notice> FifoNetwork::advance() {
  const auto [at, sequence, event] = events_.pop();
  Flight& flight = flights_[event.slot];
  if (flight.use != event.use) return std::nullopt;  // taken off its way meanwhile
  Packet& packet = flight.packet;
  switch (event.kind) {
    case Event::Kind::departs: {
      flight.departed = true;
      return Notice{Notice::Kind::departed,
                    Packet{packet.from, packet.to, packet.bytes, packet.service, {}}};
    }
    case Event::Kind::arrives: {
      const std::uint32_t site = config_.site_of[packet.to];
      const bool lan = site == config_.site_of[packet.from];
      flight.span = pass(lan ? lan_in_[packet.to] : down_[site], flight.span, packet.bytes);
      events_.push(flight.span.end, {Event::Kind::delivers, event.slot, event.use});
      return std::nullopt;
    }
    case Event::Kind::delivers:
      break;
  }
  Notice notice{Notice::Kind::delivered, std::move(packet)};
  bulk_ -= notice.packet.message.is_bulk();
  free_slot(event.slot);
  if (dead_[notice.packet.to]) return std::nullopt;
  return notice;
}

// Takes every flight for which pick(flight) says so off its way.
template <class Pick>
void FifoNetwork::ground(Pick&& pick) {
  for (std::uint32_t slot = 0; slot < flights_.size(); ++slot) {
    Flight& flight = flights_[slot];
    if (!flight.flying) continue;
    const bool bulk = flight.packet.message.is_bulk();
    if (!pick(flight)) continue;
    bulk_ -= bulk;
    free_slot(slot);
  }
}

void FifoNetwork::cut(Rank from, Rank to, Time) {
  auto& parked = cut_[{from, to}];
  ground([&](Flight& f) {
    if (f.packet.from != from || f.packet.to != to) return false;
    parked.emplace(f.number, Parked{std::move(f.packet), f.departed});
    return true;
  });
}

void FifoNetwork::heal(Rank from, Rank to, Time now) {
  auto way = cut_.extract({from, to});
  if (way.empty()) return;
  for (auto& [number, parked] : way.mapped())
    launch(std::move(parked.packet), number, parked.departed, now);
}

void FifoNetwork::crash(Rank rank, Time now) {
  dead_[rank] = true;
  for (auto& [way, parked] : cut_) {
    if (way.first == rank || way.second == rank) parked.clear();
  }
  ground([&](Flight& f) { return f.packet.from == rank && f.leaves > now; });
}

std::uint32_t FifoNetwork::take_slot() {
  if (free_slots_.empty()) {
    flights_.emplace_back();
    return std::uint32_t(flights_.size() - 1);
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void FifoNetwork::free_slot(std::uint32_t slot) {
  Flight& flight = flights_[slot];
  flight.packet = {};
  flight.flying = false;
  ++flight.use;
  free_slots_.push_back(slot);
}

void FifoNetwork::state(Archive& ar) {
  ar.expect("fifo network of " + std::to_string(config_.site_of.size()) + " nodes");
  for (auto* servers : {&up_, &down_, &lan_out_, &lan_in_})
    for (Server& server : *servers) ar(server.free_at);
  ar(pair_free_at_, flights_, free_slots_, events_, number_, bulk_, dead_, cut_);
  bool good = dead_.size() == lan_in_.size();
  for (const std::uint32_t slot : free_slots_) good &= slot < flights_.size();
  for (const auto& entry : events_.entries()) good &= entry.event.slot < flights_.size();
  for (const Flight& flight : flights_)
    good &= flight.packet.from < dead_.size() && flight.packet.to < dead_.size();
  if (!good) ar.fail("names a packet or a node that is not there");
}

}  // namespace longhaul::sim
