#include "longhaul/net/datagrams.h"

#include <cstring>
#include <utility>

namespace longhaul::net {
namespace {

constexpr std::uint64_t kMostNumber = (std::uint64_t(1) << 40) - 1;
constexpr FrameLimits kLimits{.head_bytes = DatagramPath::kLongest,
                              .body_bytes = DatagramPath::kLongest};

std::uint32_t mixed(std::uint32_t checksum, std::uint64_t key) {
  return checksum ^ std::uint32_t(key) ^ std::uint32_t(key >> 32);
}

// The frame in a datagram; empty: its lengths are not those that it says.
std::optional<FrameHeader> framed(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameHeader) return std::nullopt;
  const auto header = decode_header(bytes.first<kFrameHeader>(), kLimits);
  if (!header) return std::nullopt;
  const std::size_t size = kFrameHeader + std::size_t(header->head_bytes) + header->body_bytes;
  return size == bytes.size() ? std::optional(*header) : std::nullopt;
}

}  // namespace

Status Datagrams::open(const std::vector<Address>& at, bool dscp) {
  UdpOptions options{.hosts = {}, .port = at.front().port, .longest = DatagramPath::kLongest};
  for (const Address& one : at) options.hosts.push_back(one.host);
  auto socket = open_udp(
      loop_, options,
      [this](std::span<const std::byte> bytes, const UdpAddress& from) { on_bytes(bytes, from); });
  if (!socket) return socket.error();
  socket_ = *std::move(socket);
  marks_ = dscp;
  return Ok{};
}

// A process that was started anew has got nothing, and has sent nothing.
Datagrams::Peer& Datagrams::at(Rank peer, const std::string& host, std::uint16_t port,
                               std::uint64_t process) {
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

void Datagrams::meet(Rank peer, const std::string& host, std::uint16_t port, std::uint64_t key) {
  LH_CHECK(!is_sealed_);
  if (!socket_) return;
  Peer& one = at(peer, host, port, key);
  if (std::exchange(one.key, key) != key) begin(peer, one);
}

// Numbers go on: a peer that has not changed its keys yet knows this node by them.
void Datagrams::meet(Rank peer, const std::string& host, std::uint16_t port,
                     std::unique_ptr<secure::DatagramKeys> keys, std::uint64_t process) {
  LH_CHECK(is_sealed_ && keys);
  if (!socket_) return;
  Peer& one = at(peer, host, port, process);
  one.keys_before = std::exchange(one.keys, std::move(keys));
  one.key_began = one.number;
  one.key_began_at = loop_.now();
  begin(peer, one);
}

void Datagrams::begin(Rank peer, Peer& one) {
  one.asked_at = Time{0};
  if (const auto loaded = loaded_.find(peer); loaded != loaded_.end()) {
    one.queue.assign(loaded->second.begin(), loaded->second.end());
    loaded_.erase(loaded);
    wake();
  }
}

void Datagrams::forget(Rank peer) {
  peers_.erase(peer);
  loaded_.erase(peer);
}

bool Datagrams::takes(Rank peer, const Message& message, const Service& service) const {
  if (service.delivery != Service::Delivery::best_effort) return false;
  const auto found = peers_.find(peer);
  return found != peers_.end() && found->second.is_usable &&
         frame_size(message) <= longest_frame(found->second);
}

std::size_t Datagrams::longest_frame(const Peer& peer) const {
  const std::size_t bytes = peer.path.size();
  return bytes - std::min(bytes, is_sealed_ ? secure::DatagramKeys::kOverhead : 0);
}

void Datagrams::send(Rank peer, const Message& message, const Service& service) {
  peers_.at(peer).queue.push_back(message_frame(message, service));
  wake();
}

// Not within a send: who is told that it is sent may be sending.
void Datagrams::wake() {
  if (!timer_) timer_ = loop_.at(loop_.now(), [this] { pump(); });
}

void Datagrams::pump() {
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
bool Datagrams::pump(Rank rank, Peer& peer) {
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

// The batch is of one address and one mark.
void Datagrams::put(Peer& peer, Frame frame) {
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
void Datagrams::flush() {
  if (batch_.to && !batch_.sizes.empty()) {
    if (marks_ && std::exchange(is_marking_, batch_.is_marked) != batch_.is_marked)
      socket_->set_dscp(batch_.is_marked ? kDscp : 0);
    (void)socket_->send(*batch_.to, batch_.bytes, batch_.sizes);
  }
  batch_.to.reset();
  batch_.bytes.clear();
  batch_.sizes.clear();
}

// The peer knows one key ahead: it must have seen the one in use.
void Datagrams::refresh_key(Peer& peer) {
  if (!peer.keys || peer.reported <= peer.key_began) return;
  const Time now = loop_.now();
  if (peer.number - peer.key_began < key_datagrams_ && now - peer.key_began_at < key_lasts_) return;
  peer.keys->update();
  peer.key_began = peer.number;
  peer.key_began_at = now;
  ++figures_.key_updates;
}

void Datagrams::on_bytes(std::span<const std::byte> bytes, const UdpAddress& from_address) {
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

// Nothing of a datagram is read but who says to have sent it, before it is opened.
void Datagrams::on_sealed(std::span<const std::byte> bytes, const UdpAddress& from_address) {
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

void Datagrams::on_frame(Rank from, Peer& peer, std::size_t size, const FrameHeader& header,
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

// --- reports ------------------------------------------------------------------------------------

void Datagrams::on_report(Peer& peer, const DatagramsGot& got) {
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

// Not within a call of the socket's for each: reports of many datagrams are one.
void Datagrams::report_soon(Peer& peer) {
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

void Datagrams::report(Peer& peer) {
  if (!socket_) return;
  peer.unreported = 0;
  peer.got.held_ns = std::uint64_t((loop_.now() - peer.got_at).count());
  Frame report;
  report.header.type = FrameHeader::Type::ack;
  report.head = Payload(share(to_wire(peer.got)));
  put(peer, std::move(report));
}

// An empty datagram, and one as long as those in use, or as may be used next.
void Datagrams::ask(Peer& peer) {
  // Sites may have met long before the run begins, and with it the questions.
  if (peer.asked_at == Time{0}) peer.waits_since = loop_.now();
  const bool is_heard = peer.heard_at > peer.asked_at;
  peer.asked_at = loop_.now();
  Frame question;
  question.header.type = FrameHeader::Type::ping;
  put(peer, std::move(question));
  probe(peer, is_heard);
}

void Datagrams::probe(Peer& peer, bool is_heard) {
  Frame frame;
  frame.header.type = FrameHeader::Type::ping;
  const std::size_t overhead = kFrameHeader + (is_sealed_ ? secure::DatagramKeys::kOverhead : 0);
  frame.head = Payload(share(Buffer(peer.path.probe(loop_.now(), is_heard) - overhead)));
  put(peer, std::move(frame));
  peer.probe = peer.number;
  peer.probe_at = loop_.now();
}

bool Datagrams::is_blocked(const Peer& peer) const {
  return loop_.now() - std::max(peer.heard_at, peer.waits_since) >= kPatience ||
         peer.path.size() == 0;
}

void Datagrams::excuse() {
  for (auto& [rank, peer] : peers_) peer.waits_since = loop_.now();
}

void Datagrams::tick(bool has_begun) {
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

void Datagrams::state(Archive& ar) {
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

}  // namespace longhaul::net
