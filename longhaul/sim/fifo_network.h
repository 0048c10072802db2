#pragma once
// A Network of first-come-first-served servers: the uplink of the sender's site, the ordered pair
// of sites, the downlink of the receiver's site; between nodes of one site the port of the sender
// and the port of the receiver on the LAN. docs/simulator.md derives the arithmetic.
//
// A message is a stream: a server starts on it when its first byte comes, and is done with it when
// both its own work and the stream have ended:
//     start   = max(arrival of the first byte, free_at)
//     free_at = start + bytes / rate
//     end     = max(free_at, end of the stage before + delay)
// so a slow stage upstream does not hold a fast one for all the time it takes (work-conserving),
// and a message of k chunks takes as long as k messages of a chunk. Servers serve in the order in
// which first bytes come to them. There is no priority between classes: what was submitted first
// goes first, and machines that care submit late (Turn::room()).
#include <map>
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
    Rate lan;  // of each node's port
    Time lan_delay{0};
  };
  struct Link {
    Rate rate;
    Time delay{0};  // one way
  };
  std::vector<Site> sites;
  std::vector<std::uint32_t> site_of;  // by rank
  Link link;                           // of pairs of sites that are not in `links`
  std::map<std::pair<std::uint32_t, std::uint32_t>, Link> links;  // ordered pairs of sites
};

class FifoNetwork final : public Network {
 public:
  // CHECKs that every site named is there and every rate is positive.
  explicit FifoNetwork(FifoConfig config);

  void submit(Packet, Time now) override;
  std::optional<Time> next_event() const override;
  std::optional<NetworkEvent> advance() override;
  void cut(Rank from, Rank to, Time now) override;
  void heal(Rank from, Rank to, Time now) override;
  void crash(Rank, Time now) override;
  void revive(Rank rank) override { in_flight_.revive(rank); }
  bool has_bulk() const override { return in_flight_.has_bulk(); }
  void state(Archive&) override;

 private:
  struct Server {
    Rate rate;
    Time free_at{0};
  };
  struct Span {  // of the first byte at a place, and of the last
    Time start{0}, end{0};
  };
  struct Way {  // between two sites
    std::uint32_t from = 0, to = 0;
    Server server;
    Time delay{0};
  };
  // Runs of chunks of one (from, to, class) go one after the other, and so does what follows them.
  struct Line {
    std::vector<std::uint32_t> waiting;  // slots; the first is being launched
    std::uint32_t under_way = 0;         // chunks that have not departed
    void state(auto& ar) { ar(waiting, under_way); }
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Progress {                                         // what is kept of a packet under way
    std::uint32_t way = kNone;                              // between sites
    std::uint32_t line = kNone;                             // of runs of chunks
    std::uint32_t launched = 0, departed = 0, arrived = 0;  // chunks
    Time leaves{0};  // the sender's side: the last chunk launched
    void state(auto& ar) { ar(way, line, launched, departed, arrived, leaves); }
  };
  using InFlight = PacketsInFlight<Progress>::InFlight;
  struct Event {
    enum class Kind : std::uint8_t { departs, arrives, delivers } kind{};
    PacketId flight;
    Time end{0};  // arrives: of the last byte
    void state(auto& ar) { ar(kind, flight, end); }
  };

  static Span pass(Server&, Span arriving, std::uint64_t bytes);
  bool same_site(const Packet& p) const { return site_of(p.from) == site_of(p.to); }
  std::uint32_t site_of(Rank rank) const { return config_.site_of[rank]; }
  std::uint32_t way(std::uint32_t from, std::uint32_t to);
  Line& line_of(InFlight&);
  Server* last_server(const Packet&);

  void begin_sending(std::uint32_t slot, Time now);
  void launch(std::uint32_t slot, Time now);
  void launch_waiting(Line&, Time now);
  std::optional<NetworkEvent> departs(std::uint32_t slot, Time now);
  void arrives(const Event&, Time now);
  void leave_line(const InFlight&);
  void check_loaded(Archive&) const;

  const FifoConfig config_;
  std::vector<Server> up_, down_;         // by site
  std::vector<Server> lan_out_, lan_in_;  // by rank
  std::vector<Way> ways_;                 // those used so far
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> way_index_;
  std::vector<Line> lines_;
  std::map<std::pair<std::pair<Rank, Rank>, unsigned>, std::uint32_t> line_index_;
  PacketsInFlight<Progress> in_flight_;
  MonotoneQueue<Event> events_;
};

}  // namespace longhaul::sim
