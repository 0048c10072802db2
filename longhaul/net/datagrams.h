#pragma once
// Best-effort messages of a node as UDP datagrams, in parallel with its connections (peers.h). A
// message is one datagram: a frame of 1,200 bytes, or more if the path allows. A datagram can be
// lost, reordered or duplicated, but is never damaged. Longer messages use the connection, and so
// do all messages while datagrams do not reach the peer.
//
// Each second a node sends two questions to each connected peer: an empty datagram, and one as long
// as the size that it uses or tries (datagram_path.h). A peer reports the datagrams that it has
// received: after kReportAfter messages or kReportWithin, and at once after a question. The reports
// set the rate (datagram_rate.h). A node that receives no report for kPatience considers UDP
// blocked and continues to ask.
//
// Messages are marked as lower effort. Networks that support the mark delay them behind all other
// traffic, also that of this node, without a limit. Questions and reports have no mark and do not
// count towards the rate. A delay of seconds for messages is therefore no sign that UDP is blocked.
//
// A frame's number names its sender and counts the sender's datagrams. A frame's order is the
// newest checkpoint of the sender. A node drops a datagram sent after a checkpoint that the node
// has not taken yet. No saved state then depends on a message that no saved state has sent.
//
// With TLS connections, each datagram is sealed (secure/datagram_keys.h) with keys of the newest
// connection of stream 0 to that peer. Keys of the previous connection open datagrams in flight. A
// sender changes to its next key after kKeyLasts or kKeyDatagrams. If the datagram with the highest
// number comes from a new address, the node uses that address from then on: a NAT router can change
// the address.
//
// With plain connections, the checksum is mixed with a number that is known only to readers of both
// hellos. The number stops attackers who cannot read the traffic. It is not encryption.
//
// Memory: queued messages, Credits::kPerClass per class. One thread: the loop's.
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/net/datagram_path.h"
#include "longhaul/net/datagram_rate.h"
#include "longhaul/net/frame.h"
#include "longhaul/net/udp.h"
#include "longhaul/secure/datagram_keys.h"

namespace longhaul::net {

// Content of a datagram of type `ack`: the messages received from the addressee, the time since the
// highest arrived, and the number of the last path probe.
struct DatagramsGot {
  std::uint64_t highest = 0, count = 0, bytes = 0, held_ns = 0, probe = 0;
  LONGHAUL_FIELDS(highest, count, bytes, held_ns, probe)
};

class Datagrams {
  static constexpr std::uint64_t kMostNumber = (std::uint64_t(1) << 40) - 1;
  static constexpr FrameLimits kLimits{.head_bytes = DatagramPath::kLongest,
                                       .body_bytes = DatagramPath::kLongest};

  static std::uint32_t mixed(std::uint32_t checksum, std::uint64_t key) {
    return checksum ^ std::uint32_t(key) ^ std::uint32_t(key >> 32);
  }

  // Returns the frame in a datagram; empty if the lengths in its header do not match.
  static std::optional<FrameHeader> framed(std::span<const std::byte> bytes) {
    if (bytes.size() < kFrameHeader) return std::nullopt;
    const auto header = decode_header(bytes.first<kFrameHeader>(), kLimits);
    if (!header) return std::nullopt;
    const std::size_t size = kFrameHeader + std::size_t(header->head_bytes) + header->body_bytes;
    return size == bytes.size() ? std::optional(*header) : std::nullopt;
  }

 public:
  static constexpr std::size_t kLargest = 1200;  // frame size that nearly all paths take
  static constexpr Time kPatience = std::chrono::seconds(3), kAsk = std::chrono::seconds(1);
  static constexpr Time kReportWithin = std::chrono::milliseconds(5);
  static constexpr std::uint64_t kReportAfter = 16;  // messages
  // ChaCha20-Poly1305 would allow more. The limit bounds what a stolen key can open.
  static constexpr std::uint64_t kKeyDatagrams = std::uint64_t(1) << 24;
  static constexpr Time kKeyLasts = std::chrono::hours(1);
  static constexpr unsigned kDscp = 1;  // lower effort (RFC 8622)
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_datagram(Rank from, const Message&) = 0;
    virtual void on_datagram_sent(Rank peer, unsigned service_class) = 0;
    // Called when datagrams do not reach the peer. `queued` must use the connection. Returns false
    // if the connection is silent too. Nothing is then known about UDP, and the node asks again.
    virtual bool on_datagrams_blocked(Rank peer, std::vector<Frame> queued) = 0;
  };
  struct Figures {
    std::uint64_t sent = 0, received = 0, dropped = 0;  // datagrams with messages
    std::uint64_t key_updates = 0;
  };

  // `is_sealed`: meet() requires keys, and plain datagrams are dropped.
  Datagrams(Loop& loop, Rank self, Events& events, bool is_sealed = false)
      : loop_(loop), self_(self), events_(events), is_sealed_(is_sealed) {}

  // For tests: limits the life of a key to a number of datagrams and a time.
  void set_key_life(std::uint64_t datagrams, Time lasts) {
    key_datagrams_ = datagrams;
    key_lasts_ = lasts;
  }

  // `at`: numerical addresses with the same port. Returns an Error if the port is in use; all
  // messages then use the connections.
  Status open(const std::vector<Address>& at, bool dscp) {
    UdpOptions options{.hosts = {}, .port = at.front().port, .longest = DatagramPath::kLongest};
    for (const Address& one : at) options.hosts.push_back(one.host);
    auto socket =
        open_udp(loop_, options, [this](std::span<const std::byte> bytes, const UdpAddress& from) {
          on_bytes(bytes, from);
        });
    if (!socket) return socket.error();
    socket_ = *std::move(socket);
    marks_ = dscp;
    return Ok{};
  }

  bool is_open() const { return socket_ != nullptr; }
  std::uint16_t port() const { return socket_->port(); }  // open sockets only
  // Called when the peer is connected and reachable at this numerical address. `key`: number shared
  // by the two processes; `process`: number of the peer's process.
  void meet(Rank peer, const std::string& host, std::uint16_t port, std::uint64_t key) {
    LH_CHECK(!is_sealed_);
    if (!socket_) return;
    Peer& one = at(peer, host, port, key);
    if (std::exchange(one.key, key) != key) begin(peer, one);
  }

  // Numbers continue, because a peer that still uses old keys knows this node by its numbers.
  void meet(Rank peer, const std::string& host, std::uint16_t port,
            std::unique_ptr<secure::DatagramKeys> keys, std::uint64_t process) {
    LH_CHECK(is_sealed_ && keys);
    if (!socket_) return;
    Peer& one = at(peer, host, port, process);
    one.keys_before = std::exchange(one.keys, std::move(keys));
    one.key_began = one.number;
    one.key_began_at = loop_.now();
    begin(peer, one);
  }

  // Removes a lost peer and drops the messages queued for it.
  void forget(Rank peer) {
    peers_.erase(peer);
    loaded_.erase(peer);
  }

  // Sets the number of the newest checkpoint that this node has taken.
  void set_checkpoint(std::uint64_t number) { checkpoint_ = number; }

  // Returns true if the message can be sent as a datagram now.
  bool takes(Rank peer, const Message& message, const Service& service) const {
    if (service.delivery != Service::Delivery::best_effort) return false;
    const auto found = peers_.find(peer);
    return found != peers_.end() && found->second.is_usable &&
           frame_size(message) <= longest_frame(found->second);
  }

  // Requires takes().
  void send(Rank peer, const Message& message, const Service& service) {
    peers_.at(peer).queue.push_back(message_frame(message, service));
    wake();
  }

  // Called a few times per second. Asks also before this node's run has begun: a peer whose run has
  // begun may know this node by its datagrams only. Reports no peer as blocked before then.
  void tick(bool has_begun = true) {
    if (!socket_) return;
    std::vector<std::pair<Rank, std::vector<Frame>>> blocked;
    for (auto& [rank, peer] : peers_) {
      if (peer.asked_at == Time{0} || loop_.now() - peer.asked_at >= kAsk) ask(peer);
      if (!has_begun) peer.waits_since = loop_.now();
      if (!is_blocked(peer)) continue;
      const bool was_known = peer.was_blocked && !peer.is_usable;
      peer.is_usable = false;
      if (!was_known)
        blocked.emplace_back(rank, std::vector<Frame>(peer.queue.begin(), peer.queue.end()));
      peer.queue.clear();
    }
    flush();
    for (auto& [rank, queued] : blocked) {
      const bool is_blocked = events_.on_datagrams_blocked(rank, std::move(queued));
      const auto found = peers_.find(rank);
      if (found == peers_.end()) continue;
      found->second.was_blocked = is_blocked;
      // The connection is silent too: wait again after the peer's next sign of life.
      if (!is_blocked) found->second.waits_since = loop_.now();
    }
  }

  // Called after a pause of this process. Silence during the pause says nothing about UDP.
  void excuse() {
    for (auto& [rank, peer] : peers_) peer.waits_since = loop_.now();
  }

  const Figures& figures() const { return figures_; }
  // Saves or loads the queued messages. A machine waits for room until they are sent.
  void state(Archive& ar) {
    std::map<Rank, std::vector<Frame>> queued = loaded_;
    for (auto& [rank, peer] : peers_)
      if (!peer.queue.empty()) queued[rank] = {peer.queue.begin(), peer.queue.end()};
    ar(queued);
    if (!ar.loading()) return;
    loaded_.clear();
    for (auto& [rank, frames] : queued) {
      const auto found = peers_.find(rank);
      if (found == peers_.end()) {
        loaded_[rank] = std::move(frames);
      } else {
        found->second.queue.assign(frames.begin(), frames.end());
        wake();
      }
    }
  }

  // Handles a datagram from the network. Public for tests.
  void on_bytes(std::span<const std::byte> bytes, const UdpAddress& from_address = {}) {
    if (is_sealed_) return on_sealed(bytes, from_address);
    auto header = framed(bytes);
    if (!header) return drop();
    const Rank from = Rank(header->number >> 40);
    const auto found = peers_.find(from);
    if (found == peers_.end()) return drop();
    header->checksum = mixed(header->checksum, found->second.key);
    const auto head = bytes.subspan(kFrameHeader, header->head_bytes);
    const auto body = bytes.subspan(kFrameHeader + header->head_bytes);
    if (!check(*header, head, body)) return drop();
    on_frame(from, found->second, bytes.size(), *header, head, body);
  }

 private:
  struct Peer {
    std::uint64_t process = 0;  // number that identifies the peer's process
    std::optional<UdpAddress> address;
    std::uint64_t key = 0;
    std::unique_ptr<secure::DatagramKeys> keys, keys_before;
    std::uint64_t key_began = 0;  // last number before the first under the current key
    Time key_began_at{0};
    std::deque<Frame> queue;
    std::uint64_t number = 0;    // number of the last datagram sent
    std::uint64_t reported = 0;  // highest number that the peer is known to have
    std::uint64_t probe = 0;     // number of the last probe
    Time probe_at{0};
    DatagramRate rate;
    DatagramPath path;
    std::uint64_t newest = 0;  // highest number from this peer
    DatagramsGot got;          // datagrams of this peer that this node has received
    Time got_at{0};            // arrival of the highest one
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

  // Discards all state but queue and number if the peer's process is new.
  Peer& at(Rank peer, const std::string& host, std::uint16_t port, std::uint64_t process) {
    Peer& one = peers_[peer];
    if (one.process != process) {
      Peer anew;
      anew.process = process;
      anew.queue = std::move(one.queue);
      anew.number = one.number;
      one = std::move(anew);
    }
    one.address = socket_->address(host, port);
    return one;
  }

  void begin(Rank peer, Peer& one) {
    one.asked_at = Time{0};
    if (const auto loaded = loaded_.find(peer); loaded != loaded_.end()) {
      one.queue.assign(loaded->second.begin(), loaded->second.end());
      loaded_.erase(loaded);
      wake();
    }
  }

  // Reads only the claimed sender before the datagram is opened.
  void on_sealed(std::span<const std::byte> bytes, const UdpAddress& from_address) {
    const auto prefix = secure::DatagramKeys::prefix_of(bytes);
    if (!prefix) return drop();
    const Rank from = Rank(prefix->number >> 40);
    const auto found = peers_.find(from);
    if (found == peers_.end()) return drop();
    for (const auto& keys : {&found->second.keys, &found->second.keys_before}) {
      if (!*keys || !(*keys)->knows(prefix->id)) continue;
      const auto opened = (*keys)->open(bytes);
      if (!opened) return drop();
      const auto header = framed(opened->bytes);
      if (!header || header->number != opened->number) return drop();
      const auto head = opened->bytes.subspan(kFrameHeader, header->head_bytes);
      const auto body = opened->bytes.subspan(kFrameHeader + header->head_bytes);
      const bool is_newest = (header->number & kMostNumber) > found->second.newest;
      if (is_newest && from_address.size > 0) found->second.address = from_address;
      return on_frame(from, found->second, bytes.size(), *header, head, body);
    }
    drop();
  }

  void on_report(Peer& peer, const DatagramsGot& got) {
    if (got.highest > peer.number) return drop();
    const auto held = Time(std::min(got.held_ns, std::uint64_t(Time(kPatience).count())));
    peer.rate.report(loop_.now(), {got.highest, got.count, got.bytes, held});
    peer.reported = std::max(peer.reported, got.highest);
    if (peer.probe > 0 && got.probe == peer.probe) {
      peer.reported = std::max(peer.reported, got.probe);
      peer.rate.trip(loop_.now(), loop_.now() - peer.probe_at);
      peer.path.answered();
      peer.probe = 0;
      if (peer.path.may_search(loop_.now())) {
        probe(peer, false);
        flush();
      }
    }
    peer.heard_at = loop_.now();
    peer.is_usable = peer.path.size() > 0;
    if (!peer.queue.empty()) wake();
  }

  void on_frame(Rank from, Peer& peer, std::size_t size, const FrameHeader& header,
                std::span<const std::byte> head, std::span<const std::byte> body) {
    const std::uint64_t number = header.number & kMostNumber;
    peer.newest = std::max(peer.newest, number);
    switch (header.type) {
      case FrameHeader::Type::ping:
        if (!head.empty()) peer.got.probe = number;
        report(peer);
        return flush();
      case FrameHeader::Type::ack: {
        const auto got = from_wire<DatagramsGot>(head);
        return got ? on_report(peer, *got) : drop();
      }
      case FrameHeader::Type::message: {
        if (number > peer.got.highest) {
          peer.got.highest = number;
          peer.got_at = loop_.now();
        }
        ++peer.got.count;
        peer.got.bytes += size;
        report_soon(peer);
        if (header.service_class / 8 != unsigned(Service::Delivery::best_effort) ||
            header.order > std::uint32_t(checkpoint_))
          return drop();
        ++figures_.received;
        Frame frame{.header = header,
                    .head = Payload(share(Buffer(head.begin(), head.end()))),
                    .body = Payload(share(Buffer(body.begin(), body.end())))};
        return events_.on_datagram(from, frame.message());
      }
      default:
        return drop();
    }
  }

  void drop() { ++figures_.dropped; }
  void pump() {
    timer_.reset();
    std::optional<Time> next;
    std::vector<Rank> ranks;  // a copy: an event handler may forget a peer
    for (const auto& [rank, peer] : peers_) ranks.push_back(rank);
    for (const Rank rank : ranks) {
      const auto found = peers_.find(rank);
      if (found == peers_.end()) continue;
      Peer& peer = found->second;
      if (!pump(rank, peer)) {
        const Time at = peer.rate.next(loop_.now());
        next = next ? std::min(*next, at) : at;
      }
      flush();
    }
    if (next && !timer_) timer_ = loop_.at(*next, [this] { pump(); });
  }

  // Sends the higher classes first, as far as the rate allows. Returns false if messages are left.
  bool pump(Rank rank, Peer& peer) {
    while (!peer.queue.empty()) {
      if (!peer.rate.may_send(loop_.now())) return false;
      const auto first = std::ranges::max_element(
          peer.queue, {}, [](const Frame& frame) { return frame.header.service_class; });
      const Frame frame = std::move(*first);
      peer.queue.erase(first);
      put(peer, frame);
      ++figures_.sent;
      if (frame.body.size() > 0) events_.on_datagram_sent(rank, frame.header.service_class);
      if (!peers_.contains(rank)) return true;
    }
    return true;
  }

  // Appends to the batch, which has one address and one mark.
  void put(Peer& peer, Frame frame) {
    if (peer.number == kMostNumber || !peer.address) return;
    const bool is_message = frame.header.type == FrameHeader::Type::message;
    if (batch_.to != peer.address || batch_.is_marked != is_message || batch_.bytes.size() > kBatch)
      flush();
    batch_.to = peer.address;
    batch_.is_marked = is_message;
    refresh_key(peer);
    frame.header.number = name_of(++peer.number);
    frame.header.order = std::uint32_t(checkpoint_);
    HeaderBytes header = seal(frame);
    const std::size_t before = batch_.bytes.size();
    const auto append = [&](std::span<const std::byte> bytes) {
      batch_.bytes.insert(batch_.bytes.end(), bytes.begin(), bytes.end());
    };
    if (peer.keys) {
      const std::span<const std::byte> parts[] = {header, frame.head.view(), frame.body.view()};
      append(peer.keys->seal(frame.header.number, parts));
    } else {
      const std::uint32_t checksum = mixed(frame.header.checksum, peer.key);
      std::memcpy(header.data() + kFrameHeader - sizeof checksum, &checksum, sizeof checksum);
      append(header);
      append(frame.head.view());
      append(frame.body.view());
    }
    const std::size_t size = batch_.bytes.size() - before;
    batch_.sizes.push_back(std::uint32_t(size));
    if (is_message) peer.rate.sent(loop_.now(), peer.number, size);
  }

  // Datagrams for which the kernel has no room are lost.
  void flush() {
    if (batch_.to && !batch_.sizes.empty()) {
      if (marks_ && std::exchange(is_marking_, batch_.is_marked) != batch_.is_marked)
        socket_->set_dscp(batch_.is_marked ? kDscp : 0);
      (void)socket_->send(*batch_.to, batch_.bytes, batch_.sizes);
    }
    batch_.to.reset();
    batch_.bytes.clear();
    batch_.sizes.clear();
  }

  // Sends an empty datagram, and one with the size in use or the next size to try.
  void ask(Peer& peer) {
    // Sites can meet long before the run and its questions begin.
    if (peer.asked_at == Time{0}) peer.waits_since = loop_.now();
    const bool is_heard = peer.heard_at > peer.asked_at;
    peer.asked_at = loop_.now();
    Frame question;
    question.header.type = FrameHeader::Type::ping;
    put(peer, std::move(question));
    probe(peer, is_heard);
  }

  void probe(Peer& peer, bool is_heard) {
    Frame frame;
    frame.header.type = FrameHeader::Type::ping;
    const std::size_t overhead = kFrameHeader + (is_sealed_ ? secure::DatagramKeys::kOverhead : 0);
    frame.head = Payload(share(Buffer(peer.path.probe(loop_.now(), is_heard) - overhead)));
    put(peer, std::move(frame));
    peer.probe = peer.number;
    peer.probe_at = loop_.now();
  }

  void report(Peer& peer) {
    if (!socket_) return;
    peer.unreported = 0;
    peer.got.held_ns = std::uint64_t((loop_.now() - peer.got_at).count());
    Frame report;
    report.header.type = FrameHeader::Type::ack;
    report.head = Payload(share(to_wire(peer.got)));
    put(peer, std::move(report));
  }

  // Reports at most once per kReportAfter datagrams, or after kReportWithin: one report for many.
  void report_soon(Peer& peer) {
    if (++peer.unreported >= kReportAfter) {
      report(peer);
      return flush();
    }
    if (report_timer_) return;
    report_timer_ = loop_.at(loop_.now() + kReportWithin, [this] {
      report_timer_.reset();
      for (auto& [rank, peer] : peers_)
        if (peer.unreported > 0) report(peer);
      flush();
    });
  }

  // The peer knows one key ahead, so it must have received something under the current key.
  void refresh_key(Peer& peer) {
    if (!peer.keys || peer.reported <= peer.key_began) return;
    const Time now = loop_.now();
    if (peer.number - peer.key_began < key_datagrams_ && now - peer.key_began_at < key_lasts_)
      return;
    peer.keys->update();
    peer.key_began = peer.number;
    peer.key_began_at = now;
    ++figures_.key_updates;
  }

  bool is_blocked(const Peer& peer) const {
    return loop_.now() - std::max(peer.heard_at, peer.waits_since) >= kPatience ||
           peer.path.size() == 0;
  }

  std::size_t longest_frame(const Peer& peer) const {
    const std::size_t bytes = peer.path.size();
    return bytes - std::min(bytes, is_sealed_ ? secure::DatagramKeys::kOverhead : 0);
  }

  // Defers the send: the caller may itself be in a send event.
  void wake() {
    if (!timer_) timer_ = loop_.at(loop_.now(), [this] { pump(); });
  }

  std::uint64_t name_of(std::uint64_t number) const { return std::uint64_t(self_) << 40 | number; }

  Loop& loop_;
  const Rank self_;
  Events& events_;
  const bool is_sealed_;
  std::unique_ptr<UdpSocket> socket_;
  std::map<Rank, Peer> peers_;
  std::map<Rank, std::vector<Frame>> loaded_;  // frames from a checkpoint, until their peer is met
  std::uint64_t checkpoint_ = 0;
  Figures figures_;
  Batch batch_;
  bool marks_ = false, is_marking_ = false;  // marking allowed; mark set now
  std::uint64_t key_datagrams_ = kKeyDatagrams;
  Time key_lasts_ = kKeyLasts;
  std::optional<Timer> timer_, report_timer_;
};

}  // namespace longhaul::net
