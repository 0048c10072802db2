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

#include "longhaul/sim/event_queue.h"
#include "longhaul/sim/network.h"

namespace longhaul::sim {

// Bytes per second; absent: unlimited.
using Rate = std::optional<double>;
inline double mbps(double megabits) { return megabits * 125000.0; }

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
  std::optional<Notice> advance() override;
  void cut(Rank from, Rank to, Time now) override;
  void heal(Rank from, Rank to, Time now) override;
  void crash(Rank, Time now) override;
  bool has_bulk() const override { return bulk_ > 0; }
  void state(Archive&) override;

 private:
  struct Server {
    Rate rate;
    Time free_at{0};
  };
  struct Span {  // of the first byte at a place, and of the last
    Time start{0}, end{0};
  };
  // A packet under way. Slots are used again; `use` tells an event of an earlier use.
  struct Flight {
    Packet packet;
    std::uint64_t number = 0;  // in order of submission
    std::uint32_t use = 0;
    bool flying = false;
    bool departed = false;
    Span span;  // at the entry of the downlink
    void state(auto& ar) {
      ar(packet, number, use, flying, departed, span.start, span.end, leaves);
    }
    Time leaves{0};  // the sender's side
  };
  struct Event {
    enum class Kind : std::uint8_t { departs, arrives, delivers } kind{};
    std::uint32_t slot = 0;
    std::uint32_t use = 0;
    void state(auto& ar) { ar(kind, slot, use); }
  };
  struct Parked {
    Packet packet;
    bool departed = false;
    void state(auto& ar) { ar(packet, departed); }
  };
  using Way = std::pair<Rank, Rank>;

  static Span pass(Server&, Span arriving, std::uint64_t bytes);
  const FifoConfig::Link& link(std::uint32_t from, std::uint32_t to) const;
  void launch(Packet, std::uint64_t number, bool departed, Time now);
  std::uint32_t take_slot();
  void free_slot(std::uint32_t slot);
  template <class Pick>
  void ground(Pick&& pick);

  const FifoConfig config_;
  std::vector<Server> up_, down_;         // by site
  std::vector<Server> lan_out_, lan_in_;  // by rank
  std::map<std::pair<std::uint32_t, std::uint32_t>, Time> pair_free_at_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_slots_;
  EventQueue<Event> events_;
  std::uint64_t number_ = 0;
  std::uint64_t bulk_ = 0;  // under way and not kept back
  std::vector<bool> dead_;  // by rank
  std::map<Way, std::map<std::uint64_t, Parked>> cut_;
};

}  // namespace longhaul::sim
