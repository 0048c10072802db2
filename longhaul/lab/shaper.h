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
#include <memory>
#include <optional>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/flow/loss.h"
#include "longhaul/flow/trace_cursor.h"
#include "longhaul/lab/delay_jitter.h"
#include "longhaul/lab/link_queue.h"
#include "longhaul/sim/event_queue.h"

namespace longhaul::lab {

struct Packet {
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
  Packet packet;
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
 public:
  static constexpr std::uint64_t kMinQueueBytes = 128 * 1024;  // bytes of a queue, at least
  // With the packets in transmission: what a starting bbr has in flight (2.89 rate x round trip).
  static constexpr double kQueueRoundTrips = 2;
  static constexpr std::uint64_t kMinDropTailBytes = 10 * 1500;
  static constexpr double kStalledRate = 1;  // bytes per second, for a rate of 0

  // `changes`: at given times, besides the Wan's traces. CHECKs the Wan: rates positive, loss
  // within [0, 1], sites that exist. A rate of 0 in a trace becomes kStalledRate.
  Shaper(flow::Wan, std::uint64_t seed, std::vector<Change> changes = {});

  // Accepts a packet at `now`, after advance(now) has returned nothing; an outcome if it is dropped
  // at once. CHECKs that the two sites differ.
  std::optional<PacketOutcome> offer(const Packet&, Time now);
  // The time of the next event.
  std::optional<Time> next_event() const;
  // The next outcome up to `now`; call it until it returns none.
  std::optional<PacketOutcome> advance(Time now);
  // Applies it at once; its `at` is ignored.
  void change(const Change&, Time now);
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
    Packet packet;
    std::uint32_t stage = 0;  // links passed
    bool delayed = false;
  };
  struct Event {
    enum class Kind : std::uint8_t { through, arrives, delivered, changes, traced } kind{};
    std::uint32_t what = 0;  // link, slot or number of the change
    std::uint32_t generation = 0;
  };

  PairPath& path(std::uint32_t from, std::uint32_t to);
  std::uint32_t add_link(const flow::Rate&);
  void set_rate(std::uint32_t link, const flow::Rate&, Time now);
  void follow(const flow::TraceCursor::Step&);
  void await_trace();
  std::optional<PacketOutcome> forward(std::uint32_t slot, Time now);
  std::optional<PacketOutcome> delay_packet(std::uint32_t slot, PairPath&, Time now);
  bool queue(std::uint32_t link, std::uint32_t slot, const PairPath&, Time now);
  void serve(std::uint32_t link, Time now);
  PacketOutcome end(std::uint32_t slot, PacketFate, Time now);
  std::uint64_t queue_limit(const flow::Rate&, const PairPath&) const;
  std::uint64_t flow_of(const Packet& p) const {
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

}  // namespace longhaul::lab
