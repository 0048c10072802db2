#pragma once
// The link model of the emulated WAN, packet by packet, without clock or descriptors. A packet from
// site a to site b passes
//
//     uplink of a -> pair (a, b) -> shared links of the pair -> (loss, delay) -> downlink of b
//
// Each link is a LinkQueue: a rate, strict priority, a fair share for each flow, tail drop. An
// absent rate passes everything at once. A flow is the traffic of one pair of sites in one class;
// bare acknowledgements are a flow of their own and so do not wait for the pair's data. A queue
// holds, per flow, what the link sends in kQueueRoundTrips round trips of that pair (its delays
// there and back), and at least kMinQueueBytes.
//
// With Wan::Queue::drop_tail a link has one queue for each class, first come first served, which
// holds what it sends in Wan::queue_s, and at least kMinDropTailBytes. Acknowledgements wait there
// as everything does.
//
// The caller passes the time, from 0, never backwards. An event has its own time however late the
// caller asks for it, so rates and delays are exact.
//
// The Wan's traces start at time 0, with the values that the simulator draws from the same seed.
// Traces without an end give endless events: advance(Time::max()) would not return.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/flow/loss.h"
#include "longhaul/flow/trace_cursor.h"
#include "longhaul/sim/delay_jitter.h"
#include "longhaul/sim/event_queue.h"
#include "longhaul/sim/link_queue.h"

namespace longhaul::sim {

struct IpPacket {
  std::uint32_t from = 0, to = 0;  // sites
  std::uint32_t bytes = 0;         // with its IP header
  unsigned service_class = 0;      // see LinkQueue
  bool answer = false;             // it is a bare acknowledgement
  std::uint64_t tag = 0;           // the caller's
};

enum class PacketFate : std::uint8_t {
  delivered,
  queue_full,
  lost,  // by the loss of the pair
  cut    // by a partition
};

struct PacketOutcome {
  PacketFate fate{};
  Time at{0};
  IpPacket packet;
};

// A change of the network while it runs.
struct Change {
  enum class What : std::uint8_t {
    up,      // rate of site `from`
    down,    // rate of site `to`
    pair,    // rate of (from, to)
    shared,  // rate of shared link number `from`
    delay,   // of (from, to), in seconds
    loss,    // of (from, to)
    cut,     // nothing goes from `from` to `to` until it is healed, as often as it was cut
    healed
  };
  Time at{0};
  What what{};
  std::uint32_t from = 0, to = 0;
  flow::Rate rate = {};  // bytes per second
  double value = 0;      // seconds, or share
};

class Shaper {
  static Time to_time(double s) { return Time(std::llround(s * 1e9)); }

  static void check_pair(const flow::Wan::Pair& pair) {
    LH_CHECK(!pair.rate || *pair.rate > 0);
    LH_CHECK(pair.delay_s >= 0 && pair.jitter_s >= 0 && pair.loss >= 0 && pair.loss <= 1);
    LH_CHECK(pair.loss_burst == 0 || pair.loss_burst >= 1);
  }

 public:
  static constexpr std::uint64_t kMinQueueBytes = 128 * 1024;  // bytes of a queue, at least
  // With the packets in transmission: what a starting bbr has in flight (2.89 rate x round trip).
  static constexpr double kQueueRoundTrips = 2;
  static constexpr std::uint64_t kMinDropTailBytes = 10 * 1500;
  static constexpr double kStalledRate = 1;  // bytes per second, for a rate of 0

  // `changes`: at given times, besides the Wan's traces. CHECKs the Wan: rates positive, loss
  // within [0, 1], sites that exist. A rate of 0 in a trace becomes kStalledRate.
  Shaper(flow::Wan wan, std::uint64_t seed, std::vector<Change> changes = {})
      : wan_(std::move(wan)), seed_(seed), changes_(std::move(changes)), walk_(wan_.traces, seed) {
    const std::size_t sites = wan_.sites.size();
    for (const flow::Wan::Site& site : wan_.sites) {
      up_.push_back(add_link(site.up));
      down_.push_back(add_link(site.down));
    }
    check_pair(wan_.usual);
    for (const auto& [ends, pair] : wan_.pairs) {
      LH_CHECK(ends.first < sites && ends.second < sites);
      check_pair(pair);
    }
    for (const flow::Wan::Shared& shared : wan_.shared) shared_.push_back(add_link(shared.rate));
    paths_.resize(sites * sites);
    while (walk_.next() == Time{0}) follow(walk_.take());
    await_trace();
    for (std::uint32_t i = 0; i < changes_.size(); ++i)
      events_.push(changes_[i].at, {Event::Kind::changes, i, 0});
  }

  // Accepts a packet at `now`, after advance(now) has returned nothing; an outcome if it is dropped
  // at once. CHECKs that the two sites differ.
  std::optional<PacketOutcome> offer(const IpPacket& packet, Time now) {
    std::uint32_t slot = std::uint32_t(flights_.size());
    if (free_.empty()) {
      flights_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    flights_[slot] = {packet};
    return forward(slot, now);
  }

  // The time of the next event.
  std::optional<Time> next_event() const {
    if (events_.empty()) return std::nullopt;
    return events_.top().at;
  }

  // The next outcome up to `now`; call it until it returns none.
  std::optional<PacketOutcome> advance(Time now) {
    while (!events_.empty() && events_.top().at <= now) {
      const auto [at, sequence, event] = events_.pop();
      std::optional<PacketOutcome> outcome;
      switch (event.kind) {
        case Event::Kind::through: {
          if (links_[event.what].generation != event.generation)
            break;  // the rate has changed meanwhile
          const std::uint32_t slot = links_[event.what].link_queue.finish().slot;
          serve(event.what, at);
          outcome = forward(slot, at);
          break;
        }
        case Event::Kind::arrives:
          outcome = forward(event.what, at);
          break;
        case Event::Kind::delivered:
          outcome = end(event.what, PacketFate::delivered, at);
          break;
        case Event::Kind::changes:
          change(changes_[event.what], at);
          break;
        case Event::Kind::traced:
          follow(walk_.take());
          await_trace();
          break;
      }
      if (outcome) return outcome;
    }
    return std::nullopt;
  }

  // Applies it at once; its `at` is ignored.
  void change(const Change& change, Time now) {
    using What = Change::What;
    switch (change.what) {
      case What::up:
        return set_rate(up_.at(change.from), change.rate, now);
      case What::down:
        return set_rate(down_.at(change.to), change.rate, now);
      case What::shared:
        return set_rate(shared_.at(change.from), change.rate, now);
      case What::pair: {
        PairPath& there = path(change.from, change.to);
        const flow::SitePair ends{change.from, change.to};
        wan_.pairs.try_emplace(ends, there.pair).first->second.rate = change.rate;
        // Connections stay within their windows, whatever the pair has room for.
        return set_rate(there.links[1], wan_.capacity(change.from, change.to), now);
      }
      case What::delay: {
        LH_CHECK(change.value >= 0);
        PairPath &there = path(change.from, change.to), &back = path(change.to, change.from);
        there.pair.delay_s = change.value;
        there.round_trip = back.round_trip = there.pair.delay_s + back.pair.delay_s;
        return;
      }
      case What::loss:
        LH_CHECK(change.value >= 0 && change.value <= 1);
        path(change.from, change.to).pair.loss = change.value;
        return;
      case What::cut:
        ++path(change.from, change.to).cuts;
        return;
      case What::healed:
        if (std::uint32_t& cuts = path(change.from, change.to).cuts; cuts > 0) --cuts;
        return;
    }
  }

  std::size_t under_way() const { return flights_.size() - free_.size(); }  // packets

 private:
  struct Link {
    LinkQueue link_queue;
    std::uint32_t generation = 0;  // tells the event of the item under way from one that is no more
  };
  struct PairPath {                    // of an ordered pair
    std::vector<std::uint32_t> links;  // the last is the downlink
    flow::Wan::Pair pair;
    double round_trip = 0;  // seconds
    DelayJitter jitter;
    Random loss_random;
    std::uint32_t cuts = 0;  // that are not healed
    bool in_burst = false;   // the last packet was lost
    Time last_arrival{0};
  };
  struct Transit {
    IpPacket packet;
    std::uint32_t stage = 0;  // links passed
    bool delayed = false;
  };
  struct Event {
    enum class Kind : std::uint8_t { through, arrives, delivered, changes, traced } kind{};
    std::uint32_t what = 0;  // link, slot or number of the change
    std::uint32_t generation = 0;
  };

  PairPath& path(std::uint32_t from, std::uint32_t to) {
    LH_CHECK(from != to && from < wan_.sites.size() && to < wan_.sites.size());
    std::unique_ptr<PairPath>& path = paths_[from * wan_.sites.size() + to];
    if (path) return *path;
    const flow::Wan::Pair& pair = wan_.pair(from, to);
    path.reset(new PairPath{{},
                            pair,
                            pair.delay_s + wan_.pair(to, from).delay_s,
                            DelayJitter(pair.jitter_s, seed_, from, to),
                            Random(seed_, {Purpose::fault, 0, from, to})});
    path->links = {up_[from], add_link(wan_.capacity(from, to))};
    for (std::size_t i = 0; i < shared_.size(); ++i) {
      const auto& pairs = wan_.shared[i].pairs;
      if (std::find(pairs.begin(), pairs.end(), flow::SitePair(from, to)) != pairs.end())
        path->links.push_back(shared_[i]);
    }
    path->links.push_back(down_[to]);
    return *path;
  }

  std::uint32_t add_link(const flow::Rate& rate) {
    links_.push_back({LinkQueue(rate)});
    return std::uint32_t(links_.size() - 1);
  }

  void set_rate(std::uint32_t link, const flow::Rate& rate, Time now) {
    if (const auto through = links_[link].link_queue.set_rate(rate, now))
      events_.push(*through, {Event::Kind::through, link, ++links_[link].generation});
  }

  void follow(const flow::TraceCursor::Step& step) {
    using Traced = flow::Traced::What;
    using What = Change::What;
    static const std::map<Traced, What> kWhat = {
        {Traced::up, What::up},         {Traced::down, What::down},   {Traced::rate, What::pair},
        {Traced::shared, What::shared}, {Traced::delay, What::delay}, {Traced::loss, What::loss}};
    const flow::Traced& traced = wan_.traces[step.trace];
    Change change{.what = kWhat.at(traced.what),
                  .from = traced.a,
                  .to = traced.b,
                  .rate = std::max(step.value, kStalledRate),
                  .value = step.value};
    if (traced.what == Traced::down) change.to = traced.a;
    this->change(change, step.at);
  }

  void await_trace() {
    if (const auto at = walk_.next()) events_.push(*at, {Event::Kind::traced, 0, 0});
  }

  // On from where it is, through all links that are free and unlimited, to the next that takes
  // time.
  std::optional<PacketOutcome> forward(std::uint32_t slot, Time now) {
    Transit& flight = flights_[slot];
    PairPath& path = this->path(flight.packet.from, flight.packet.to);
    while (flight.stage < path.links.size()) {
      if (flight.stage + 1 == path.links.size() && !flight.delayed)
        return delay_packet(slot, path, now);
      const std::uint32_t link = path.links[flight.stage++];
      const LinkQueue& link_queue = links_[link].link_queue;
      if (!link_queue.rate() && link_queue.empty()) continue;
      if (!queue(link, slot, path, now)) return end(slot, PacketFate::queue_full, now);
      return std::nullopt;
    }
    events_.push(now, {Event::Kind::delivered, slot, 0});
    return std::nullopt;
  }

  std::optional<PacketOutcome> delay_packet(std::uint32_t slot, PairPath& path, Time now) {
    if (path.cuts > 0) return end(slot, PacketFate::cut, now);
    const flow::Loss loss{path.pair.loss, path.pair.loss_burst};
    path.in_burst = loss.p > 0 && path.loss_random.uniform() < loss.after(path.in_burst);
    if (path.in_burst) return end(slot, PacketFate::lost, now);
    flights_[slot].delayed = true;
    const Time delay = to_time(std::max(0.0, path.pair.delay_s + path.jitter.at(now)));
    path.last_arrival = std::max(path.last_arrival, now + delay);  // nobody overtakes
    events_.push(path.last_arrival, {Event::Kind::arrives, slot, 0});
    return std::nullopt;
  }

  bool queue(std::uint32_t link, std::uint32_t slot, const PairPath& path, Time now) {
    const IpPacket& packet = flights_[slot].packet;
    LinkQueue& link_queue = links_[link].link_queue;
    const std::uint64_t limit = queue_limit(link_queue.rate(), path);
    if (!link_queue.push(packet.service_class, flow_of(packet), {slot, packet.bytes}, limit))
      return false;
    if (!link_queue.busy()) serve(link, now);
    return true;
  }

  void serve(std::uint32_t link, Time now) {
    if (const auto through = links_[link].link_queue.start(now))
      events_.push(*through, {Event::Kind::through, link, ++links_[link].generation});
  }

  PacketOutcome end(std::uint32_t slot, PacketFate fate, Time now) {
    free_.push_back(slot);
    return {fate, now, flights_[slot].packet};
  }

  std::uint64_t queue_limit(const flow::Rate& rate, const PairPath& path) const {
    const double bytes_per_second = rate.value_or(0);
    if (wan_.queue == flow::Wan::Queue::drop_tail)
      return std::max(kMinDropTailBytes, std::uint64_t(bytes_per_second * wan_.queue_s));
    return std::max(kMinQueueBytes,
                    std::uint64_t(kQueueRoundTrips * bytes_per_second * path.round_trip));
  }

  std::uint64_t flow_of(const IpPacket& p) const {
    if (wan_.queue == flow::Wan::Queue::drop_tail) return 0;
    return std::uint64_t{p.from} << 32 | std::uint64_t{p.answer} << 31 | p.to;
  }

  flow::Wan wan_;
  const std::uint64_t seed_;
  std::vector<Change> changes_;
  flow::TraceCursor walk_;  // one of its steps is in events_
  std::vector<Link> links_;
  std::vector<std::uint32_t> up_, down_, shared_;
  std::vector<std::unique_ptr<PairPath>> paths_;  // by from * sites + to; those used so far
  std::vector<Transit> flights_;
  std::vector<std::uint32_t> free_;
  sim::EventQueue<Event> events_;
};

}  // namespace longhaul::sim
