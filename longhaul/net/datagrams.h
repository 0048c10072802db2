#pragma once
// Best-effort messages of a node as UDP datagrams, beside its connections (peers.h): a message is a
// datagram, a frame of 1,200 bytes or of what the path takes. It is lost, or comes out of order, or
// twice; never damaged. Longer messages, and all of them while datagrams do not reach the peer, go
// over the connection.
//
// Each second a node sends an empty datagram to each peer that it is connected with, and one that
// is as long as those it uses or tries (datagram_path.h). A peer answers datagrams with what it has
// got, messages after kReportAfter of them or kReportWithin, and questions at once; that sets the
// rate (datagram_rate.h). Who hears no answer for kPatience takes UDP for blocked, and goes on
// asking.
//
// Messages are marked as lower effort: where networks know it they wait behind all other traffic,
// this node's own above all, for as long as it takes. Questions and answers are not marked, and no
// part of the rate: messages that wait for seconds are no sign that UDP is blocked.
//
// A frame's number says who sends it, and counts its datagrams; its order holds the newest
// checkpoint of its sender: a node drops what was sent after a checkpoint that it has not taken
// itself, so that no saved state has heard of what no saved state has said.
//
// Beside TLS connections each datagram is sealed (secure/datagram_keys.h) with keys of the newest
// connection of stream 0 to that peer; those of the connection before open what was under way.
// A sender goes on to its next key after kKeyLasts or kKeyDatagrams. What comes first under a new
// number from another address moves the peer there: a router between (NAT) may change what it
// shows.
//
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
#include "longhaul/net/datagram_path.h"
#include "longhaul/net/datagram_rate.h"
#include "longhaul/net/frame.h"
#include "longhaul/net/udp.h"
#include "longhaul/secure/datagram_keys.h"

namespace longhaul::net {

// What a datagram of type `ack` says: which messages its sender has got of its receiver; for how
// long it has had the highest; and the number of the last probe of the path.
struct DatagramsGot {
  std::uint64_t highest = 0, count = 0, bytes = 0, held_ns = 0, probe = 0;
  LONGHAUL_FIELDS(highest, count, bytes, held_ns, probe)
};

class Datagrams {
 public:
  static constexpr std::size_t kLargest = 1200;  // frames that nearly all paths take
  static constexpr Time kPatience = std::chrono::seconds(3), kAsk = std::chrono::seconds(1);
  static constexpr Time kReportWithin = std::chrono::milliseconds(5);
  static constexpr std::uint64_t kReportAfter = 16;  // messages
  // ChaCha20-Poly1305 would bear more; what a thief of a key can read is less.
  static constexpr std::uint64_t kKeyDatagrams = std::uint64_t(1) << 24;
  static constexpr Time kKeyLasts = std::chrono::hours(1);
  static constexpr unsigned kDscp = 1;  // lower effort (RFC 8622)
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_datagram(Rank from, const Message&) = 0;
    virtual void on_datagram_sent(Rank peer, unsigned service_class) = 0;
    // Datagrams do not reach the peer; these go over the connection. False: its connection is
    // silent, too, so nothing is known of UDP; it is asked again.
    virtual bool on_datagrams_blocked(Rank peer, std::vector<Frame> queued) = 0;
  };
  struct Figures {
    std::uint64_t sent = 0, received = 0, dropped = 0;  // datagrams with messages
    std::uint64_t key_updates = 0;
  };

  // `is_sealed`: no peer is met without keys, and no plain datagram is taken.
  Datagrams(Loop& loop, Rank self, Events& events, bool is_sealed = false)
      : loop_(loop), self_(self), events_(events), is_sealed_(is_sealed) {}

  // For tests: a key lasts for so many datagrams, or so long.
  void set_key_life(std::uint64_t datagrams, Time lasts) {
    key_datagrams_ = datagrams;
    key_lasts_ = lasts;
  }

  // `at`: numerical, of one port. Error: the port is taken; then everything goes over the
  // connections.
  Status open(const std::vector<Address>& at, bool dscp);
  bool is_open() const { return socket_ != nullptr; }
  std::uint16_t port() const { return socket_->port(); }  // once it is open
  // The peer is connected, and reached by this numerical address. `key`: of this pair of processes;
  // `process`: a number of the peer's.
  void meet(Rank peer, const std::string& host, std::uint16_t port, std::uint64_t key);
  void meet(Rank peer, const std::string& host, std::uint16_t port,
            std::unique_ptr<secure::DatagramKeys> keys, std::uint64_t process);
  void forget(Rank peer);  // it is lost; what is queued for it is dropped
  // The newest checkpoint that this node has taken.
  void set_checkpoint(std::uint64_t number) { checkpoint_ = number; }

  // Does it go as a datagram now?
  bool takes(Rank peer, const Message&, const Service&) const;
  void send(Rank peer, const Message&, const Service&);  // which takes() says
  // Some times a second. Before this node's run has begun it asks too: a peer whose run has begun
  // already may know it by its datagrams alone. It gives nobody up then.
  void tick(bool has_begun = true);
  // This process did not run for a while: what was not heard meanwhile says nothing of UDP.
  void excuse();
  const Figures& figures() const { return figures_; }
  // What is queued: a machine waits for room until it is sent.
  void state(Archive&);

  // For tests: a datagram as from the network.
  void on_bytes(std::span<const std::byte>, const UdpAddress& from = {});

 private:
  struct Peer {
    std::uint64_t process = 0;  // a number that tells the peer's processes apart
    std::optional<UdpAddress> address;
    std::uint64_t key = 0;
    std::unique_ptr<secure::DatagramKeys> keys, keys_before;
    std::uint64_t key_began = 0;  // the number before the first under the key that seals
    Time key_began_at{0};
    std::deque<Frame> queue;
    std::uint64_t number = 0;    // of the last that was sent
    std::uint64_t reported = 0;  // of the highest that the peer is known to have
    std::uint64_t probe = 0;     // of the last probe
    Time probe_at{0};
    DatagramRate rate;
    DatagramPath path;
    std::uint64_t newest = 0;  // the highest number that came from this peer
    DatagramsGot got;          // of this peer, by this node
    Time got_at{0};            // its highest
    std::uint64_t unreported = 0;
    Time asked_at{0}, heard_at{0}, waits_since{0};
    bool is_usable = false, was_blocked = false;
  };
  // Sealed datagrams to one peer that wait for the socket.
  struct Batch {
    std::optional<UdpAddress> to;
    Buffer bytes;
    std::vector<std::uint32_t> sizes;
    bool is_marked = false;
  };
  static constexpr std::size_t kBatch = 64 * 1024;  // bytes

  Peer& at(Rank peer, const std::string& host, std::uint16_t port, std::uint64_t process);
  void begin(Rank, Peer&);
  void on_sealed(std::span<const std::byte>, const UdpAddress& from);
  void on_report(Peer&, const DatagramsGot&);
  void on_frame(Rank, Peer&, std::size_t size, const FrameHeader&, std::span<const std::byte> head,
                std::span<const std::byte> body);
  void drop() { ++figures_.dropped; }
  void pump();
  bool pump(Rank, Peer&);
  void put(Peer&, Frame);  // into the batch
  void flush();
  void ask(Peer&);
  void probe(Peer&, bool is_heard);
  void report(Peer&);
  void report_soon(Peer&);
  void refresh_key(Peer&);
  bool is_blocked(const Peer&) const;
  std::size_t longest_frame(const Peer&) const;
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
  Batch batch_;
  bool marks_ = false, is_marking_ = false;  // may; does now
  std::uint64_t key_datagrams_ = kKeyDatagrams;
  Time key_lasts_ = kKeyLasts;
  std::optional<Timer> timer_, report_timer_;
};

}  // namespace longhaul::net
