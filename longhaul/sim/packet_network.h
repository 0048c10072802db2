#pragma once
// A Network that sends every packet. Two nodes have two TCP connections, as over sockets: one for
// control messages, one for all other messages (tcp_endpoint.h). Each carries data and
// acknowledgements in both directions. Their packets pass the Shaper, the link model of the
// emulated WAN. So queues fill and drop, and acknowledgements wait in them, which the fair model
// only estimates.
//
// A packet costs a few events, so this model suits exchanges of seconds and up to 32 nodes. A
// FifoNetwork carries messages within a site.
//
// - A message departs when the sender's kernel holds its last byte, some time before that is sent.
//   It is delivered when all bytes before its end have arrived.
// - Connections are open from the beginning and know their round trip. During a pause a ping
// measures
//   it each second, as the pings of the transport do.
// - run/network.cpp refuses best-effort messages. Packets have no checkpoints: state() fails.
#include <deque>
#include <memory>

#include "longhaul/sim/fifo_network.h"
#include "longhaul/sim/shaper.h"
#include "longhaul/sim/tcp_endpoint.h"
#include "longhaul/sim/wake_up_queue.h"

namespace longhaul::sim {

struct PacketConfig {
  flow::Wan wan;
  std::vector<std::uint32_t> site_of;  // by rank
  std::uint64_t seed = 1;
  // Maximum bulk payload by (from, to), bytes per second, until a node or a path is lost.
  std::map<std::pair<Rank, Rank>, double> pacing = {};
};

class PacketNetwork final : public Network {
 public:
  explicit PacketNetwork(PacketConfig config);

  void submit(Packet, Time now) override;
  std::optional<Time> next_event() const override;
  std::optional<NetworkEvent> advance() override;
  void cut(Rank from, Rank to, Time now) override;
  void heal(Rank from, Rank to, Time now) override;
  void crash(Rank, Time now) override;
  void revive(Rank) override;
  bool has_bulk() const override { return in_flight_.has_bulk() || lan_.has_bulk(); }
  void state(Archive&) override;

  struct Figures {
    std::uint64_t packets = 0, dropped = 0, lost = 0, retransmitted = 0;
  };
  Figures figures() const;

 private:
  struct Nothing {  // no data to keep with a message
    void state(auto&) {}
  };
  struct Awaited {
    PacketId message;
    std::uint64_t end = 0;  // end of the message in the stream, bytes
  };
  struct End {
    Rank at = 0, peer = 0;
    bool control = false;
    std::uint32_t other = 0;  // the connection's other end
    TcpEndpoint tcp;
    std::uint32_t opened = 0;  // number of openings; data of earlier ones is lost
    std::deque<Awaited> departing = {}, arriving = {};  // messages from this end
  };
  struct UnderWay {
    TcpSegment segment;
    std::uint32_t to = 0;  // end
    std::uint32_t opened = 0;
  };

  std::uint32_t end(Rank at, Rank peer, bool control, Time now);
  TcpEndpoint tcp(Rank at, Rank peer, bool control, Time now) const;
  void begin_sending(std::uint32_t slot, Time now);
  void write(End&, std::uint32_t slot, Time now);
  void pump(std::uint32_t end, Time now);
  void settle(const PacketOutcome&);
  void open_anew(std::uint32_t end, Time now);
  double rtt_s(Rank at, Rank peer) const;
  double pacing(Rank at, Rank peer, bool control) const;
  void end_pacing();

  PacketConfig config_;
  Shaper shaper_;
  FifoNetwork lan_;
  std::vector<End> ends_;
  std::map<std::tuple<Rank, Rank, bool>, std::uint32_t> index_;  // (at, peer, control)
  WakeUpQueue wake_ups_;
  std::vector<UnderWay> under_way_;  // by tag
  std::vector<std::uint64_t> free_;  // tags
  PacketsInFlight<Nothing> in_flight_;
  std::deque<NetworkEvent> ready_;
  Time now_{0};
  Figures figures_;
};

}  // namespace longhaul::sim
