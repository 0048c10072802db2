#pragma once
// A Network of first-come-first-served servers: the uplink of the sender's site, the ordered pair
// of sites, and the downlink of the receiver's site. Between nodes of one site, the servers are the
// LAN ports of the sender and the receiver. docs/simulator.md explains the arithmetic.
//
// A message is a stream: a server starts when its first byte arrives, and is done when both its own
// work and the stream have ended:
//     start   = max(arrival of the first byte, free_at)
//     free_at = start + bytes / rate
//     end     = max(free_at, end of the previous stage + delay)
// So a slow stage upstream does not occupy a fast one for its whole duration (work-conserving). A
// message of k chunks takes as long as k messages of a chunk. Servers serve in the order in which
// first bytes arrive. Classes have no priority: messages go in order of submission, and a machine
// that needs priority submits late (Turn::room()).
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "longhaul/core/turn.h"
#include "longhaul/flow/rate.h"
#include "longhaul/sim/monotone_queue.h"
#include "longhaul/sim/network.h"
#include "longhaul/sim/packets_in_flight.h"

namespace longhaul::sim {

using flow::Rate;

struct FifoConfig {
  struct Site {
    Rate up, down;
    Rate lan;  // rate of each node's port
    Time lan_delay{0};
  };
  struct Link {
    Rate rate;
    Time delay{0};  // one way
  };
  std::vector<Site> sites;
  std::vector<std::uint32_t> site_of;  // by rank
  Link link;                           // default for pairs of sites outside `links`
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> links;  // ordered pairs of sites
};

class FifoNetwork final : public Network {
  static Time occupancy(std::uint64_t bytes, const Rate& rate) {
    if (!rate) return Time{0};
    return Time{std::int64_t(std::llround(double(bytes) * 1e9 / *rate))};
  }

  static void check_rate(const Rate& rate) { LH_CHECK(!rate || *rate > 0); }

 public:
  // CHECKs that all sites exist and all rates are positive.
  explicit FifoNetwork(FifoConfig config)
      : config_(std::move(config)), in_flight_(config_.site_of.size()) {
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
  }

  void submit(Packet packet, Time now) override {
    if (const auto slot = in_flight_.submit(std::move(packet))) begin_sending(*slot, now);
  }

  std::optional<Time> next_event() const override {
    if (events_.empty()) return std::nullopt;
    return events_.first();
  }

  std::optional<NetworkEvent> advance() override {
    const auto [at, event] = events_.pop();
    if (!in_flight_.is_current(event.flight)) return std::nullopt;  // removed in transit
    switch (event.kind) {
      case Event::Kind::departs:
        return departs(event.flight.slot, at);
      case Event::Kind::arrives:
        arrives(event, at);
        return std::nullopt;
      case Event::Kind::delivers:
        return in_flight_.delivers(event.flight.slot);
    }
    return std::nullopt;
  }

  void cut(Rank from, Rank to, Time) override {
    in_flight_.cut(from, to, [this](const InFlight& flight) { leave_line(flight); });
  }

  void heal(Rank from, Rank to, Time now) override {
    for (const std::uint32_t slot : in_flight_.heal(from, to)) begin_sending(slot, now);
  }

  void crash(Rank rank, Time now) override {
    in_flight_.crash(rank, [&](const InFlight& flight) {
      if (flight.leaves <= now && flight.launched == flight.packet.chunks) return false;
      leave_line(flight);
      return true;
    });
  }

  void revive(Rank rank) override { in_flight_.revive(rank); }
  bool has_bulk() const override { return in_flight_.has_bulk(); }
  void state(Archive& ar) override {
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
    ar(lines_, line_index_, in_flight_, events_);
    if (ar.loading()) check_loaded(ar);
  }

 private:
  struct Server {
    Rate rate;
    Time free_at{0};
  };
  struct Span {  // times of the first and the last byte at a place
    Time start{0}, end{0};
  };
  struct Way {  // path between two sites
    std::uint32_t from = 0, to = 0;
    Server server;
    Time delay{0};
  };
  // Queue of one (from, to, class): runs of chunks go one after the other, then later packets.
  struct Line {
    std::vector<std::uint32_t> waiting;  // slots; the first is being launched
    std::uint32_t under_way = 0;         // chunks that have not departed
    void state(auto& ar) { ar(waiting, under_way); }
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Progress {                                         // state of a packet in flight
    std::uint32_t way = kNone;                              // path between sites
    std::uint32_t line = kNone;                             // line of runs of chunks
    std::uint32_t launched = 0, departed = 0, arrived = 0;  // chunks
    Time leaves{0};                                         // departure of the last launched chunk
    void state(auto& ar) { ar(way, line, launched, departed, arrived, leaves); }
  };
  using InFlight = PacketsInFlight<Progress>::InFlight;
  struct Event {
    enum class Kind : std::uint8_t { departs, arrives, delivers } kind{};
    PacketId flight;
    Time end{0};  // arrives: time of the last byte
    void state(auto& ar) { ar(kind, flight, end); }
  };

  static Span pass(Server& server, Span arriving, std::uint64_t bytes) {
    const Time start = std::max(arriving.start, server.free_at);
    server.free_at = start + occupancy(bytes, server.rate);
    return {start, std::max(server.free_at, arriving.end)};
  }

  bool same_site(const Packet& p) const { return site_of(p.from) == site_of(p.to); }
  std::uint32_t site_of(Rank rank) const { return config_.site_of[rank]; }
  std::uint32_t way(std::uint32_t from, std::uint32_t to) {
    const auto [index, is_new] = way_index_.try_emplace({from, to}, std::uint32_t(ways_.size()));
    if (is_new) {
      const auto own = config_.links.find({from, to});
      const FifoConfig::Link& link = own == config_.links.end() ? config_.link : own->second;
      ways_.push_back({from, to, {link.rate}, link.delay});
    }
    return index->second;
  }

  Line& line_of(InFlight& flight) {
    const Packet& p = flight.packet;
    const auto [index, is_new] = line_index_.try_emplace(
        {{p.from, p.to}, p.service.service_class()}, std::uint32_t(lines_.size()));
    if (is_new) lines_.emplace_back();
    flight.line = index->second;
    return lines_[flight.line];
  }

  Server* last_server(const Packet& packet) {
    Server& server = same_site(packet) ? lan_in_[packet.to] : down_[site_of(packet.to)];
    return server.rate ? &server : nullptr;
  }

  void begin_sending(std::uint32_t slot, Time now) {
    InFlight& flight = in_flight_[slot];
    if (!same_site(flight.packet))
      flight.way = way(site_of(flight.packet.from), site_of(flight.packet.to));
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

  // Launches one chunk. The stages before the downlink serve one sender's site in order of
  // submission, so their times are known at once. The downlink serves in order of arrival: an
  // event.
  void launch(std::uint32_t slot, Time now) {
    InFlight& flight = in_flight_[slot];
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
    const PacketId id = in_flight_.id(slot);
    if (packet.message.is_bulk() && (!flight.departure_reported || flight.line != kNone))
      events_.push(span.end, {Event::Kind::departs, id});
    const Time end = span.end + delay;
    if (last_server(packet)) {
      events_.push(span.start + delay, {Event::Kind::arrives, id, end});
    } else if (flight.launched == packet.chunks) {
      events_.push(end, {Event::Kind::delivers, id});
    }
  }

  // Launches as many chunks as a node would have sent chunk by chunk.
  void launch_waiting(Line& line, Time now) {
    std::size_t done = 0;
    for (; done < line.waiting.size(); ++done) {
      const std::uint32_t slot = line.waiting[done];
      InFlight& flight = in_flight_[slot];
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

  std::optional<NetworkEvent> departs(std::uint32_t slot, Time now) {
    InFlight& flight = in_flight_[slot];
    std::optional<NetworkEvent> notice;
    if (++flight.departed == flight.packet.chunks) notice = in_flight_.departs(slot);
    if (flight.line != kNone) {
      --lines_[flight.line].under_way;
      launch_waiting(lines_[flight.line], now);
    }
    return notice;
  }

  void arrives(const Event& event, Time now) {
    InFlight& flight = in_flight_[event.flight.slot];
    const Packet& p = flight.packet;
    const std::uint64_t i = flight.arrived++;
    const Span span = pass(*last_server(p), {now, event.end},
                           p.bytes * (i + 1) / p.chunks - p.bytes * i / p.chunks);
    if (flight.arrived == p.chunks) events_.push(span.end, {Event::Kind::delivers, event.flight});
  }

  // Clears the whole line of the packet.
  void leave_line(const InFlight& flight) {
    if (flight.line != kNone) lines_[flight.line] = {};
  }

  // See PacketsInFlight::good().
  void check_loaded(Archive& ar) const {
    bool good = in_flight_.good();
    events_.for_each([&](const auto& entry) { good &= in_flight_.has(entry.event.flight.slot); });
    for (const auto& [key, line] : line_index_) good &= line < lines_.size();
    for (const Line& line : lines_)
      for (const std::uint32_t slot : line.waiting) good &= in_flight_.has(slot);
    for (const InFlight& flight : in_flight_.all()) {
      good &= flight.line == kNone || flight.line < lines_.size();
      good &= flight.way == kNone || flight.way < ways_.size();
    }
    if (!good) ar.fail("names a packet or a node that is not there");
  }

  const FifoConfig config_;
  std::vector<Server> up_, down_;         // by site
  std::vector<Server> lan_out_, lan_in_;  // by rank
  std::vector<Way> ways_;                 // used so far
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> way_index_;
  std::vector<Line> lines_;
  std::map<std::pair<std::pair<Rank, Rank>, unsigned>, std::uint32_t> line_index_;
  PacketsInFlight<Progress> in_flight_;
  MonotoneQueue<Event> events_;
};

}  // namespace longhaul::sim
