#pragma once
// A Network of connections that share links fairly. There is one connection for each (from, to,
// service class); it sends its packets in order, one after the other. Busy connections share the
// links on their path by weighted max-min fairness with strict priority (flow/fair_rates.h). These
// links are the uplink of the sender's site, the ordered pair of sites, shared links that the pair
// crosses, and the downlink of the receiver's site; within a site they are the ports of both nodes.
// docs/simulator.md explains all this.
//
// - Reliable connections have slow start, bbr's ProbeRTT, and TCP's limits under loss (flow/tcp.h,
//   cubic.h). Lost packets are sent again and delay those behind them. If both directions are
//   busy, acknowledgements take their share. Best-effort packets are paced at the same rate,
//   without slow start, and may be lost, late, or duplicated.
// - A packet departs when its last byte has left. It is delivered after the one-way delay (and
//   jitter) from then on; packets of a reliable connection are delivered in order.
// - A run of chunks is one packet of their bytes: on one connection this makes no difference.
// - A control message that fits one packet, on an idle connection, takes its bytes / the narrowest
//   link and does not share: an error of at most a packet's time for others.
// - With Wan::Queue::drop_tail packets also wait in the queues of full ports, acknowledgements too,
//   which slows the growth of connections (flow/queue.h).
// - Rates change once for all events of one time: an event 1 ns later computes them, with effect
//   from that time.
//
// With `multicast_priority`, a node's reliable messages of that priority are one multicast by the
// network. The multicast is one flow with one rate. It passes the uplink once, and the downlinks of
// all receivers that still get data. It has no congestion control.
//
// Calls must not be later than next_event().
#include <array>
#include <map>
#include <set>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/flow/cubic.h"
#include "longhaul/flow/fair_rates.h"
#include "longhaul/flow/loss.h"
#include "longhaul/flow/queue.h"
#include "longhaul/flow/tcp.h"
#include "longhaul/flow/wan.h"
#include "longhaul/sim/event_queue.h"
#include "longhaul/sim/network.h"
#include "longhaul/sim/packets_in_flight.h"
#include "longhaul/sim/wake_up_queue.h"

namespace longhaul::sim {

// Faults of best-effort packets in addition to the loss of their site pair; shares of packets.
struct Datagrams {
  double duplicated = 0;  // arrive twice
  double corrupted = 0;   // discarded by the receiver: lost
  double late = 0;        // arrive late_s later
  double late_s = 0.05;
};

struct FairConfig {
  flow::Wan wan;
  std::vector<std::uint32_t> site_of;  // by rank
  std::uint64_t seed = 1;
  flow::Tcp tcp;
  Datagrams datagrams;
  bool paced = false;  // bulk of bbr starts again after pauses and does not rest soon (flow/bbr.h)
  std::optional<std::uint8_t> multicast_priority = {};  // absent: the network sends no copies
};

class FairNetwork final : public Network {
 public:
  // CHECKs that every site exists, every rate is positive, every loss in [0, 1).
  explicit FairNetwork(FairConfig config);

  void submit(Packet, Time now) override;
  std::optional<Time> next_event() const override;
  std::optional<NetworkEvent> advance() override;
  void cut(Rank from, Rank to, Time now) override;
  void heal(Rank from, Rank to, Time now) override;
  void crash(Rank, Time now) override;
  void revive(Rank rank) override { in_flight_.revive(rank); }
  bool has_bulk() const override { return in_flight_.has_bulk(); }
  void state(Archive&) override;

  // Returns the rate in bytes per second with IP headers; for tests and figures.
  double rate(Rank from, Rank to, Service) const;
  std::uint64_t lost() const { return lost_; }  // best-effort packets

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // Whether reliable flows were active just before a time, without flows that start or end then.
  struct BusyState {
    std::uint32_t flows = 0;
    Time changed{0};
    bool before = false;
    void add(int flow, Time now) {
      if (now != changed) before = flows > 0;
      changed = now;
      flows += std::uint32_t(flow);
    }
    bool until(Time now) const { return now == changed ? before : flows > 0; }
    void state(auto& ar) { ar(flows, changed, before); }
  };
  struct DirectedPair {  // an ordered pair of sites
    std::uint32_t from = 0, to = 0;
    std::uint32_t link = kNone;
    double delay_s = 0, back_s = 0, jitter_s = 0,
           loss = 0;  // back_s: the delay in the other direction
    double loss_burst = 0;
    bool in_burst = false;  // the last datagram was lost
    std::vector<std::uint32_t> connections = {};
    BusyState busy = {};
  };
  struct Stream {  // state of a connection that loses packets under cubic
    flow::CubicWindow window;
    Time next{0};  // end of its round trip
    void state(auto& ar) { ar(window, next); }
  };
  enum class Mode : std::uint8_t {
    idle,
    single_packet,  // a small control message alone
    flowing         // has a fair share
  };
  struct Connection {
    Rank from = 0, to = 0;
    Service service;
    std::uint32_t pair = kNone;  // none within a site
    bool is_multicast = false;   // shares the flow of multicast_.at(from).front()

    Mode mode = Mode::idle;
    std::vector<std::uint32_t> queue = {};  // slots; the first is in transmission
    double left = 0;                        // IP bytes left of the first, at `since`
    double rate = 0;
    Time since{0}, ends{0};  // for the first: end at the current rate
    bool slow = true;        // slow start
    double window_rate = 0;  // limit of slow start
    Time next_doubling{0};
    bool in_probe_rtt = false;     // bbr
    Time probe_rtt_at{0};          // begin or end of ProbeRTT, if the connection sends then
    Time small_acked_at{0};        // acknowledgement of the last single small message
    bool probe_postponed = false;  // a small packet has postponed ProbeRTT since the last one
    std::vector<Stream> windows = {};
    std::uint64_t rounds = 0;   // round trips of the windows; numbers the random draws
    double last_rate = 0;       // rate before it became idle
    Time idle_since{0};         // or creation time if never used
    Time last_delivery{0};      // last in-order delivery
    std::uint64_t packets = 0;  // sent packets; numbers the random draws
    void state(auto& ar) {
      ar(mode, queue, left, rate, since, ends, slow, window_rate, next_doubling, in_probe_rtt,
         probe_rtt_at, small_acked_at, probe_postponed, windows, rounds, last_rate, idle_since,
         last_delivery, packets);
    }
    bool reliable() const { return service.delivery == Service::Delivery::reliable; }
    bool has_tcp() const { return reliable() && !is_multicast; }
  };
  struct Estimating {  // state of a connection, with drop_tail
    flow::BbrEstimate rate;
    Time next{0};         // end of its round trip
    Time grows_since{0};  // cubic: time of the last reset or slowdown by a pause
    void state(auto& ar) { ar(rate, next, grows_since); }
  };
  struct Port {  // a link with a rate between sites, with drop_tail
    std::vector<std::uint32_t> connections = {};  // connections across it
    std::array<double, 8> wait_s = {};            // by priority, at the last settle()
    std::array<bool, 8> full = {}, known = {}, fullness_known = {};
  };
  struct Sent {         // data of a packet in flight
    bool left = false;  // the last byte has left the sender
    void state(auto& ar) { ar(left); }
  };
  struct Links {  // links of one site or node; kNone: unlimited
    std::uint32_t out = kNone, in = kNone;
    BusyState sends = {}, gets = {};  // for a site
  };

  // Links and connections.
  void check_config() const;
  void add_links();
  std::uint32_t add_link(const flow::Rate&, bool traced);
  bool traced(flow::Traced::What what, std::uint32_t a, std::uint32_t b = 0) const {
    return traced_.contains({what, {a, b}});
  }
  std::uint32_t pair(std::uint32_t from, std::uint32_t to);
  static std::uint64_t key_of(Rank from, Rank to, const Service& service) {
    return (std::uint64_t{from} << 32 | to) * Service::kClasses + service.service_class();
  }
  std::uint32_t connection(Rank from, Rank to, const Service&, Time now);
  std::vector<std::uint32_t> path(const Connection&) const;
  double back_s(std::uint32_t from, std::uint32_t to) const;
  double rtt_s(const Connection&) const;
  flow::Loss loss(const Connection&) const;
  void follow(std::uint32_t trace, Time now);
  void set(const flow::Traced&, double value);
  void tell_connections(std::uint32_t from, std::uint32_t to, Time now);

  // Sending.
  void begin_sending(std::uint32_t slot, Time now);
  void start(std::uint32_t connection, Time now);
  void begin_flow(Connection&, std::uint32_t index, Time now);
  void end_flow(Connection&, std::uint32_t index, Time now);
  void mark(Time now);
  void settle();
  Time wake_of(const Connection&) const;
  std::optional<NetworkEvent> wake(std::uint32_t connection, Time now);
  std::optional<NetworkEvent> depart(std::uint32_t connection, Time now);

  // Multicast: one flow to several receivers.
  std::uint32_t flow_of(std::uint32_t connection) const;
  void form_multicast(Rank from);
  void follow_rate(std::uint32_t connection, double rate, Time base);

  // Congestion control (fair_congestion.cpp).
  std::uint32_t streams(const Connection&) const;
  double first_rate(const Connection&) const;
  double window(const Connection&) const;
  void reset_connection(Connection&, Time now);
  void schedule_probe_rtt(Connection&, Time now);
  void wake_control(Connection&, Time now);
  void send_small(Connection&, Time now);
  void on_small_acked(Connection&, Time at);
  void end_pause(Connection&, Time now);
  void update_probe_rtt(Connection&, Time now);
  void end_probe_rtt(Connection&, Time now);
  bool models_probe_rtt(const Connection&, std::uint32_t index) const;
  void form_windows(Connection&, Time now);
  double windows_rate(const Connection&) const;
  void limit(std::uint32_t connection);
  static bool window_limits(const Connection&);
  void end_slow_start(Connection&, std::uint32_t index, Time now);
  Time next_control(const Connection&) const;
  void control(Connection&, std::uint32_t index, Time now);
  void round_trip(Connection&, std::uint32_t stream, double all, bool used, Time now);

  // Queues at ports; nothing waits unless the Wan has drop_tail.
  bool drop_tail() const { return config_.wan.queue == flow::Wan::Queue::drop_tail; }
  std::uint32_t weight(const Connection&) const;
  void add_to_ports(const Connection&, std::uint32_t index);
  void forget_waits(Time now);
  void age_waits(Time now);  // cubic's waits grow while no rate changes
  bool is_full(std::uint32_t link, std::uint8_t priority) const;
  double port_wait_s(std::uint32_t link, std::uint8_t priority) const;
  double wait_s(const Connection&) const;
  double real_rtt_s(const Connection&) const;
  bool estimates(const Connection& c) const {  // whether bbr's estimate of its rate limits it
    return drop_tail() && c.pair != kNone && c.has_tcp() && config_.tcp.first_window > 0 &&
           config_.tcp.control == flow::Tcp::Control::bbr && c.windows.empty() && rtt_s(c) > 0;
  }
  void estimate(Connection&, std::uint32_t index, Time now);
  double estimated_cap(const Connection&, std::uint32_t index) const;

  // Acknowledgements.
  void note_busy(const Connection&, int flow, Time now);
  double acks(const Connection&, Time now) const;

  // Arriving.
  Random draw(Purpose, const Connection&, std::uint64_t number) const;
  void send_off(std::uint32_t slot, Connection&, Time now);
  void send_datagram(std::uint32_t slot, Connection&, Time now);
  bool loses(const Connection&, std::uint64_t packets, Random&);
  double jittered(const Connection&, Random&) const;
  double repair(const Connection&, std::uint64_t packets, Random&) const;
  std::optional<NetworkEvent> delivers(PacketId);

  // Faults and state.
  void stop(std::uint32_t connection, Time now);
  void check_loaded(Archive&) const;

  const FairConfig config_;
  flow::FairRates rates_;             // flow number = connection number
  std::vector<Links> sites_, nodes_;  // by site; by rank, on the LAN
  std::vector<std::uint32_t> shared_;
  std::map<flow::SitePair, std::vector<std::uint32_t>> crossed_;  // links of shared_ by pair
  std::set<std::pair<flow::Traced::What, flow::SitePair>> traced_;
  std::vector<DirectedPair> pairs_;  // used or traced pairs
  std::map<flow::SitePair, std::uint32_t> pair_index_;
  std::map<std::uint64_t, std::uint32_t> connection_index_;  // by key_of()

  std::map<Rank, std::vector<std::uint32_t>> multicast_;        // connections by sender
  std::map<Rank, std::vector<std::uint32_t>> multicast_links_;  // links that its flow last passed
  std::vector<Connection> connections_;
  // With drop_tail. By connection: estimates, and the ports on the path there and back. By link:
  // ports.
  std::vector<Estimating> estimates_;
  std::vector<std::vector<std::uint32_t>> there_, back_;
  mutable std::vector<Port> ports_;
  WakeUpQueue wake_ups_;        // connections
  WakeUpQueue trace_wake_ups_;  // traces
  std::vector<flow::TraceSegment> segments_;
  std::optional<Time> unsettled_at_;  // time with changes that are not settled yet
  Time waits_at_{0};                  // time for which waits are computed
  PacketsInFlight<Sent> in_flight_;
  EventQueue<PacketId> deliveries_;
  std::uint64_t lost_ = 0;
};

}  // namespace longhaul::sim
