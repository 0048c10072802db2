#include "longhaul/net/datagrams.h"

#include <cstring>

namespace longhaul::net {
namespace {

constexpr std::uint64_t kMostNumber = (std::uint64_t(1) << 40) - 1;
constexpr FrameLimits kLimits{.head_bytes = Datagrams::kLargest, .body_bytes = Datagrams::kLargest};

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

Status Datagrams::open(bool loopback_only, std::uint16_t port, bool dscp) {
  const std::size_t longest = kLargest + (is_sealed_ ? secure::DatagramKeys::kOverhead : 0);
  auto socket = open_udp(loop_, loopback_only, port, longest,
                         [this](std::span<const std::byte> bytes) { on_bytes(bytes); });
  if (!socket) return socket.error();
  socket_ = *std::move(socket);
  if (dscp) socket_->set_dscp(kDscp);
  return Ok{};
}

Datagrams::Peer& Datagrams::at(Rank peer, std::string host, std::uint16_t port) {
  Peer& one = peers_[peer];
  one.host = std::move(host);
  one.port = port;
  return one;
}

void Datagrams::meet(Rank peer, std::string host, std::uint16_t port, std::uint64_t key) {
  LH_CHECK(!is_sealed_);
  if (!socket_) return;
  Peer& one = at(peer, std::move(host), port);
  if (std::exchange(one.key, key) != key) begin(peer, one);
}

// Numbers go on: a peer that has not changed its keys yet knows this node by them.
void Datagrams::meet(Rank peer, std::string host, std::uint16_t port,
                     std::unique_ptr<secure::DatagramKeys> keys) {
  LH_CHECK(is_sealed_ && keys);
  if (!socket_) return;
  Peer& one = at(peer, std::move(host), port);
  one.keys_before = std::exchange(one.keys, std::move(keys));
  begin(peer, one);
}

void Datagrams::begin(Rank peer, Peer& one) {
  one.met_at = loop_.now();
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
  if (service.delivery != Service::Delivery::best_effort || frame_size(message) > kLargest)
    return false;
  const auto found = peers_.find(peer);
  return found != peers_.end() && found->second.is_usable;
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
  for (auto& [rank, peer] : peers_)
    if (!pump(rank, peer)) {
      const Time at = peer.rate.next(loop_.now());
      next = next ? std::min(*next, at) : at;
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

// What the kernel has no room for is lost, as on the way.
void Datagrams::put(Peer& peer, Frame frame) {
  if (peer.number == kMostNumber) return;
  frame.header.number = name_of(++peer.number);
  frame.header.order = std::uint32_t(checkpoint_);
  HeaderBytes header = seal(frame);
  if (peer.keys) {
    const std::span<const std::byte> parts[] = {header, frame.head.view(), frame.body.view()};
    const auto sealed = peer.keys->seal(frame.header.number, parts);
    peer.rate.sent(sealed.size());
    (void)socket_->send(peer.host, peer.port, {sealed, {}, {}});
    return;
  }
  const std::uint32_t checksum = mixed(frame.header.checksum, peer.key);
  std::memcpy(header.data() + kFrameHeader - sizeof checksum, &checksum, sizeof checksum);
  peer.rate.sent(frame.size());
  (void)socket_->send(peer.host, peer.port, {header, frame.head.view(), frame.body.view()});
}

void Datagrams::on_bytes(std::span<const std::byte> bytes) {
  if (is_sealed_) return on_sealed(bytes);
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
void Datagrams::on_sealed(std::span<const std::byte> bytes) {
  const auto prefix = secure::DatagramKeys::prefix_of(bytes);
  if (!prefix) return drop();
  const Rank from = Rank(prefix->number >> 40);
  const auto found = peers_.find(from);
  if (found == peers_.end()) return drop();
  for (const auto& keys : {&found->second.keys, &found->second.keys_before}) {
    if (!*keys || (*keys)->id() != prefix->id) continue;
    const auto opened = (*keys)->open(bytes);
    if (!opened) return drop();
    const auto header = framed(opened->bytes);
    if (!header || header->number != opened->number) return drop();
    const auto head = opened->bytes.subspan(kFrameHeader, header->head_bytes);
    const auto body = opened->bytes.subspan(kFrameHeader + header->head_bytes);
    return on_frame(from, found->second, bytes.size(), *header, head, body);
  }
  drop();
}

void Datagrams::on_frame(Rank from, Peer& peer, std::size_t size, const FrameHeader& header,
                         std::span<const std::byte> head, std::span<const std::byte> body) {
  peer.got.highest = std::max(peer.got.highest, header.number & kMostNumber);
  ++peer.got.count;
  peer.got.bytes += size;
  switch (header.type) {
    case FrameHeader::Type::ping:
      peer.owes_report = true;
      return;
    case FrameHeader::Type::ack: {
      const auto got = from_wire<DatagramsGot>(head);
      if (!got) return drop();
      peer.rate.report(loop_.now(), {got->highest, got->count, got->bytes});
      peer.heard_at = loop_.now();
      peer.is_usable = true;
      return;
    }
    case FrameHeader::Type::message: {
      peer.owes_report = true;
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

void Datagrams::tick() {
  if (!socket_) return;
  const Time now = loop_.now();
  std::vector<std::pair<Rank, std::vector<Frame>>> blocked;
  for (auto& [rank, peer] : peers_) {
    if (std::exchange(peer.owes_report, false)) {
      Frame report;
      report.header.type = FrameHeader::Type::ack;
      report.head = Payload(share(to_wire(peer.got)));
      put(peer, std::move(report));
    }
    if (peer.asked_at == Time{0} || now - peer.asked_at >= kAsk) {
      peer.asked_at = now;
      Frame ask;
      ask.header.type = FrameHeader::Type::ping;
      put(peer, std::move(ask));
    }
    if (now - std::max(peer.heard_at, peer.met_at) < kPatience) continue;
    const bool was_known = peer.was_blocked && !peer.is_usable;
    peer.is_usable = false;
    peer.was_blocked = true;
    if (!was_known)
      blocked.emplace_back(rank, std::vector<Frame>(peer.queue.begin(), peer.queue.end()));
    peer.queue.clear();
  }
  for (auto& [rank, queued] : blocked) events_.on_datagrams_blocked(rank, std::move(queued));
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
