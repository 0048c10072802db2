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

// What a datagram of type `ack` says: which messages its sender has got of its receiver; for how
// long it has had the highest; and the number of the last probe of the path.
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

  // The frame in a datagram; empty: its lengths are not those that it says.
  static std::optional<FrameHeader> framed(std::span<const std::byte> bytes) {
    if (bytes.size() < kFrameHeader) return std::nullopt;
    const auto header = decode_header(bytes.first<kFrameHeader>(), kLimits);
    if (!header) return std::nullopt;
    const std::size_t size = kFrameHeader + std::size_t(header->head_bytes) + header->body_bytes;
    return size == bytes.size() ? std::optional(*header) : std::nullopt;
  }

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
  std::uint16_t port() const { return socket_->port(); }  // once it is open
  // The peer is connected, and reached by this numerical address. `key`: of this pair of processes;
  // `process`: a number of the peer's.
  void meet(Rank peer, const std::string& host, std::uint16_t port, std::uint64_t key) {
    LH_CHECK(!is_sealed_);
    if (!socket_) return;
    Peer& one = at(peer, host, port, key);
    if (std::exchange(one.key, key) != key) begin(peer, one);
  }

  // Numbers go on: a peer that has not changed its keys yet knows this node by them.
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

  // it is lost; what is queued for it is dropped
  void forget(Rank peer) {
    peers_.erase(peer);
    loaded_.erase(peer);
  }

  // The newest checkpoint that this node has taken.
  void set_checkpoint(std::uint64_t number) { checkpoint_ = number; }

  // Does it go as a datagram now?
  bool takes(Rank peer, const Message& message, const Service& service) const {
    if (service.delivery != Service::Delivery::best_effort) return false;
    const auto found = peers_.find(peer);
    return found != peers_.end() && found->second.is_usable &&
           frame_size(message) <= longest_frame(found->second);
  }

  // which takes() says
  void send(Rank peer, const Message& message, const Service& service) {
    peers_.at(peer).queue.push_back(message_frame(message, service));
    wake();
  }

  // Some times a second. Before this node's run has begun it asks too: a peer whose run has begun
  // already may know it by its datagrams alone. It gives nobody up then.
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
      // Its connection is silent, too: when that is heard again, datagrams are to have their time.
      if (!is_blocked) found->second.waits_since = loop_.now();
    }
  }

  // This process did not run for a while: what was not heard meanwhile says nothing of UDP.
  void excuse() {
    for (auto& [rank, peer] : peers_) peer.waits_since = loop_.now();
  }

  const Figures& figures() const { return figures_; }
  // What is queued: a machine waits for room until it is sent.
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

  // For tests: a datagram as from the network.
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

  // A process that was started anew has got nothing, and has sent nothing.
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

  // Nothing of a datagram is read but who says to have sent it, before it is opened.
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
    std::vector<Rank> ranks;  // who is told that something was sent may forget a peer
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

  // The classes of higher priority first, as far as the rate allows. False: some are left.
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

  // Into the batch, which is of one address and one mark.
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

  // What the kernel has no room for is lost, as on the way.
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

  // An empty datagram, and one as long as those in use, or as may be used next.
  void ask(Peer& peer) {
    // Sites may have met long before the run begins, and with it the questions.
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

  // Not within a call of the socket's for each: reports of many datagrams are one.
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

  // The peer knows one key ahead: it must have seen the one in use.
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

  // Not within a send: who is told that it is sent may be sending.
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
