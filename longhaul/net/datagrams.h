#pragma once
// Best-effort messages of a node as UDP datagrams, beside its connections (peers.h): a message is a
// datagram, a frame of 1,200 bytes at most. It is lost, or comes out of order, or twice; never
// damaged. Longer messages, and all of them while datagrams do not reach the peer, go over the
// connection.
//
// Each second a node sends an empty datagram to each peer that it is connected with, and a peer
// answers datagrams with what it has got. Who hears no answer for kPatience takes UDP for blocked,
// and goes on asking.
//
// A frame's number says who sends it, and counts its datagrams; its order holds the newest
// checkpoint of its sender: a node drops what was sent after a checkpoint that it has not taken
// itself, so that no saved state has heard of what no saved state has said.
//
// Beside TLS connections each datagram is sealed (secure/datagram_keys.h) with keys of the newest
// connection of stream 0 to that peer; those of the connection before open what was under way.
// Beside plain connections the checksum is mixed with a number that only those know who have heard
// both hellos. That keeps off strangers who do not read the traffic; it is no encryption.
//
// Memory: what machines hand over, Credits::kPerClass messages of a class. One thread: the loop's.
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/net/datagram_rate.h"
#include "longhaul/net/frame.h"
#include "longhaul/net/udp.h"
#include "longhaul/secure/datagram_keys.h"

namespace longhaul::net {

// What a datagram of type `ack` says: what its sender has got of its receiver.
struct DatagramsGot {
  std::uint64_t highest = 0, count = 0, bytes = 0;
  LONGHAUL_FIELDS(highest, count, bytes)
};

class Datagrams {
 public:
  static constexpr std::size_t kLargest = 1200;
  static constexpr Time kPatience = std::chrono::seconds(3), kAsk = std::chrono::seconds(1);
  // Lower effort (RFC 8622): behind all other traffic where networks know it.
  static constexpr unsigned kDscp = 1;
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_datagram(Rank from, const Message&) = 0;
    virtual void on_datagram_sent(Rank peer, unsigned service_class) = 0;
    // Datagrams do not reach the peer; these go over the connection.
    virtual void on_datagrams_blocked(Rank peer, std::vector<Frame> queued) = 0;
  };
  struct Figures {
    std::uint64_t sent = 0, received = 0, dropped = 0;  // datagrams with messages
  };

  // `is_sealed`: no peer is met without keys, and no plain datagram is taken.
  Datagrams(Loop& loop, Rank self, Events& events, bool is_sealed = false)
      : loop_(loop), self_(self), events_(events), is_sealed_(is_sealed) {}

  // Error: the port is taken; then everything goes over the connections.
  Status open(bool loopback_only, std::uint16_t port, bool dscp);
  bool is_open() const { return socket_ != nullptr; }
  std::uint16_t port() const { return socket_->port(); }  // once it is open
  // The peer is connected, and reached by this numerical address. `key`: of this pair of processes.
  void meet(Rank peer, std::string host, std::uint16_t port, std::uint64_t key);
  void meet(Rank peer, std::string host, std::uint16_t port,
            std::unique_ptr<secure::DatagramKeys> keys);
  void forget(Rank peer);  // it is lost; what is queued for it is dropped
  // The newest checkpoint that this node has taken.
  void set_checkpoint(std::uint64_t number) { checkpoint_ = number; }

  // Does it go as a datagram now?
  bool takes(Rank peer, const Message&, const Service&) const;
  void send(Rank peer, const Message&, const Service&);  // which takes() says
  void tick();                                           // some times a second
  const Figures& figures() const { return figures_; }
  // What is queued: a machine waits for room until it is sent.
  void state(Archive&);

  // For tests: a datagram as from the network.
  void on_bytes(std::span<const std::byte>);

 private:
  struct Peer {
    std::string host;
    std::uint16_t port = 0;
    std::uint64_t key = 0;
    std::unique_ptr<secure::DatagramKeys> keys, keys_before;
    std::deque<Frame> queue;
    std::uint64_t number = 0;  // of the last that was sent
    DatagramRate rate;
    DatagramsGot got;  // of this peer, by this node
    bool owes_report = false;
    Time asked_at{0}, heard_at{0}, met_at{0};
    bool is_usable = false, was_blocked = false;
  };

  Peer& at(Rank peer, std::string host, std::uint16_t port);
  void begin(Rank, Peer&);
  void on_sealed(std::span<const std::byte>);
  void on_frame(Rank, Peer&, std::size_t size, const FrameHeader&, std::span<const std::byte> head,
                std::span<const std::byte> body);
  void drop() { ++figures_.dropped; }
  void pump();
  bool pump(Rank, Peer&);
  void put(Peer&, Frame);
  void wake();
  std::uint64_t name_of(std::uint64_t number) const { return std::uint64_t(self_) << 40 | number; }

  Loop& loop_;
  const Rank self_;
  Events& events_;
  const bool is_sealed_;
  std::unique_ptr<UdpSocket> socket_;
  std::map<Rank, Peer> peers_;
  std::map<Rank, std::vector<Frame>> loaded_;  // from a checkpoint, until their peer is met
  std::uint64_t checkpoint_ = 0;
  Figures figures_;
  std::optional<Timer> timer_;
};

}  // namespace longhaul::net
