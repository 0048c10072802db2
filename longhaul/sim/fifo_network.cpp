#include "longhaul/sim/fifo_network.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

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

std::uint32_t FifoNetwork::way(std::uint32_t from, std::uint32_t to) {
  const auto [index, is_new] = way_index_.try_emplace({from, to}, std::uint32_t(ways_.size()));
  if (is_new) {
    const auto own = config_.links.find({from, to});
    const FifoConfig::Link& link = own == config_.links.end() ? config_.link : own->second;
    ways_.push_back({from, to, {link.rate}, link.delay});
  }
  return index->second;
}

FifoNetwork::Line& FifoNetwork::line_of(Flight& flight) {
  const Packet& p = flight.packet;
  const auto [index, is_new] = line_index_.try_emplace({{p.from, p.to}, p.service.service_class()},
                                                       std::uint32_t(lines_.size()));
  if (is_new) lines_.emplace_back();
  flight.line = index->second;
  return lines_[flight.line];
}

FifoNetwork::Server* FifoNetwork::last_server(const Packet& packet) {
  Server& server = same_site(packet) ? lan_in_[packet.to] : down_[site_of(packet.to)];
  return server.rate ? &server : nullptr;
}

FifoNetwork::Span FifoNetwork::pass(Server& server, Span arriving, std::uint64_t bytes) {
  const Time start = std::max(arriving.start, server.free_at);
  server.free_at = start + occupancy(bytes, server.rate);
  return {start, std::max(server.free_at, arriving.end)};
}

void FifoNetwork::submit(Packet packet, Time now) {
  LH_CHECK(packet.from < dead_.size() && packet.to < dead_.size() && packet.chunks > 0);
  const std::uint64_t number = number_++;
  if (dead_[packet.from] || dead_[packet.to]) return;
  if (auto way = cut_.find({packet.from, packet.to}); way != cut_.end()) {
    way->second.emplace(number, Parked{std::move(packet), false});
    return;
  }
  take_off(std::move(packet), number, false, now);
}

void FifoNetwork::take_off(Packet packet, std::uint64_t number, bool told, Time now) {
  const std::uint32_t slot = take_slot();
  Flight& flight = flights_[slot];
  flight.packet = std::move(packet);
  if (!same_site(flight.packet))
    flight.way = way(site_of(flight.packet.from), site_of(flight.packet.to));
  flight.number = number;
  flight.flying = true;
  flight.told = told;
  bulk_ += flight.packet.message.is_bulk();
  const bool run = flight.packet.chunks > 1;
  if (!run && line_index_.empty()) return launch(slot, now);
  Line& line = line_of(flight);
  if (!run && line.waiting.empty()) {
    flight.line = kNone;
    return launch(slot, now);
  }
  line.waiting.push_back(slot);
  launch_waiting(line, now);
}

// As far as a node that sends chunk by chunk would have got.
void FifoNetwork::launch_waiting(Line& line, Time now) {
  std::size_t done = 0;
  for (; done < line.waiting.size(); ++done) {
    const std::uint32_t slot = line.waiting[done];
    Flight& flight = flights_[slot];
    const bool bulk = flight.packet.message.is_bulk();
    while (flight.launched < flight.packet.chunks) {
      if (bulk && line.under_way >= Credits::kPerClass) {
        line.waiting.erase(line.waiting.begin(), line.waiting.begin() + std::ptrdiff_t(done));
        return;
      }
      line.under_way += bulk;
      launch(slot, now);
    }
  }
  line.waiting.clear();
}

// One chunk. The stages before the downlink serve one sender's site, in order of submission, so
// their times are known at once. The downlink is served in order of arrival: an event.
void FifoNetwork::launch(std::uint32_t slot, Time now) {
  Flight& flight = flights_[slot];
  const Packet& packet = flight.packet;
  const std::uint64_t i = flight.launched++;
  const std::uint64_t bytes =
      packet.bytes * (i + 1) / packet.chunks - packet.bytes * i / packet.chunks;
  Span span{now, now};
  Time delay;
  if (flight.way == kNone) {
    span = pass(lan_out_[packet.from], span, bytes);
    delay = config_.sites[site_of(packet.from)].lan_delay;
  } else {
    span = pass(up_[site_of(packet.from)], span, bytes);
    Way& between = ways_[flight.way];
    if (between.server.rate) span = pass(between.server, span, bytes);
    delay = between.delay;
  }
  flight.leaves = span.end;
  if (packet.message.is_bulk() && (!flight.told || flight.line != kNone))
    events_.push(span.end, {Event::Kind::departs, slot, flight.use});
  const Time end = span.end + delay;
  if (last_server(packet)) {
    events_.push(span.start + delay, {Event::Kind::arrives, slot, flight.use, end});
  } else if (flight.launched == packet.chunks) {
    events_.push(end, {Event::Kind::delivers, slot, flight.use});
  }
}

std::optional<Time> FifoNetwork::next_event() const {
  if (events_.empty()) return std::nullopt;
  return events_.top().at;
}

std::optional<Notice> FifoNetwork::advance() {
  const auto [at, sequence, event] = events_.pop();
  if (flights_[event.slot].use != event.use) return std::nullopt;  // taken off its way meanwhile
  switch (event.kind) {
    case Event::Kind::departs:
      return departs(event, at);
    case Event::Kind::arrives:
      arrives(event, at);
      return std::nullopt;
    case Event::Kind::delivers:
      return delivers(event);
  }
  return std::nullopt;
}

std::optional<Notice> FifoNetwork::departs(const Event& event, Time now) {
  Flight& flight = flights_[event.slot];
  const Packet& p = flight.packet;
  std::optional<Notice> notice;
  if (++flight.departed == p.chunks && !std::exchange(flight.told, true))
    notice = Notice{Notice::Kind::departed, Packet{p.from, p.to, p.bytes, p.service, {}}};
  if (flight.line != kNone) {
    --lines_[flight.line].under_way;
    launch_waiting(lines_[flight.line], now);
  }
  return notice;
}

void FifoNetwork::arrives(const Event& event, Time now) {
  Flight& flight = flights_[event.slot];
  const Packet& p = flight.packet;
  const std::uint64_t i = flight.arrived++;
  const Span span = pass(*last_server(p), {now, event.end},
                         p.bytes * (i + 1) / p.chunks - p.bytes * i / p.chunks);
  if (flight.arrived == p.chunks)
    events_.push(span.end, {Event::Kind::delivers, event.slot, event.use});
}

std::optional<Notice> FifoNetwork::delivers(const Event& event) {
  Notice notice{Notice::Kind::delivered, std::move(flights_[event.slot].packet)};
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
    if (flight.line != kNone) lines_[flight.line] = {};  // all of a line goes together
    bulk_ -= bulk;
    free_slot(slot);
  }
}

void FifoNetwork::cut(Rank from, Rank to, Time) {
  auto& parked = cut_[{from, to}];
  ground([&](Flight& f) {
    if (f.packet.from != from || f.packet.to != to) return false;
    parked.emplace(f.number, Parked{std::move(f.packet), f.told});
    return true;
  });
}

void FifoNetwork::heal(Rank from, Rank to, Time now) {
  auto way = cut_.extract({from, to});
  if (way.empty()) return;
  for (auto& [number, parked] : way.mapped())
    take_off(std::move(parked.packet), number, parked.told, now);
}

void FifoNetwork::crash(Rank rank, Time now) {
  dead_[rank] = true;
  for (auto& [way, parked] : cut_) {
    if (way.first == rank || way.second == rank) parked.clear();
  }
  ground([&](Flight& f) {
    return f.packet.from == rank && (f.leaves > now || f.launched < f.packet.chunks);
  });
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
  const std::uint32_t use = flights_[slot].use + 1;
  flights_[slot] = {};
  flights_[slot].use = use;
  free_slots_.push_back(slot);
}

void FifoNetwork::state(Archive& ar) {
  ar.expect("fifo network of " + std::to_string(config_.site_of.size()) + " nodes");
  for (auto* servers : {&up_, &down_, &lan_out_, &lan_in_})
    for (Server& server : *servers) ar(server.free_at);
  std::uint64_t ways = ways_.size();
  ar(ways);
  for (std::uint64_t i = 0; i < ways && !ar.failed(); ++i) {
    std::uint32_t from = ar.loading() ? 0 : ways_[i].from, to = ar.loading() ? 0 : ways_[i].to;
    ar(from, to);
    ar(ways_[way(from, to)].server.free_at);
  }
  ar(lines_, line_index_, flights_, free_slots_, events_, number_, bulk_, dead_, cut_);
  if (ar.loading()) check_loaded(ar);
}

// A torn file that still parses must not send us out of bounds.
void FifoNetwork::check_loaded(Archive& ar) const {
  bool good = dead_.size() == lan_in_.size();
  for (const std::uint32_t slot : free_slots_) good &= slot < flights_.size();
  for (const auto& entry : events_.entries()) good &= entry.event.slot < flights_.size();
  for (const auto& [key, line] : line_index_) good &= line < lines_.size();
  for (const Line& line : lines_)
    for (const std::uint32_t slot : line.waiting) good &= slot < flights_.size();
  const auto check = [&](const Packet& packet) {
    good &= packet.from < dead_.size() && packet.to < dead_.size() && packet.chunks > 0;
  };
  for (const Flight& flight : flights_) {
    check(flight.packet);
    good &= flight.line == kNone || flight.line < lines_.size();
    good &= flight.way == kNone || flight.way < ways_.size();
  }
  for (const auto& [way, parked] : cut_)
    for (const auto& [number, one] : parked) check(one.packet);
  if (!good) ar.fail("names a packet or a node that is not there");
}

}  // namespace longhaul::sim
