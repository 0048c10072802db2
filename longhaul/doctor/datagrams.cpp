#include "longhaul/doctor/datagrams.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>

namespace longhaul::doctor {
namespace {

struct Endpoint {
  sockaddr_storage at{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&at); }
  void set_port(std::uint16_t port) {
    if (at.ss_family == AF_INET6)
      reinterpret_cast<sockaddr_in6&>(at).sin6_port = htons(port);
    else
      reinterpret_cast<sockaddr_in&>(at).sin_port = htons(port);
  }
  std::uint16_t port() const {
    return at.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(at).sin6_port)
                                    : ntohs(reinterpret_cast<const sockaddr_in&>(at).sin_port);
  }
};

// A datagram socket of the family of an endpoint that says with which mark each came.
Socket make(const Endpoint& like) {
  Socket made(socket(like.at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(made.get(), IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
  if (like.at.ss_family == AF_INET6)
    setsockopt(made.get(), IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on);
  return made;
}

void mark(const Socket& socket) {
  const int value = int(kDscp) << 2;  // below it are the two bits of ECN
  setsockopt(socket.get(), IPPROTO_IP, IP_TOS, &value, sizeof value);
  setsockopt(socket.get(), IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value);
}

struct Arrived {
  Datagram datagram;
  std::uint32_t dscp = 0;
  Endpoint from;
  std::size_t size = 0;
};

std::uint32_t dscp_of(msghdr& message) {
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_TOS)
      return std::uint32_t(*CMSG_DATA(one)) >> 2;
    if (one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_TCLASS) {
      int value = 0;
      std::memcpy(&value, CMSG_DATA(one), sizeof value);
      return std::uint32_t(value & 0xff) >> 2;
    }
  }
  return 0;
}

// The next one that waits; `good` is false for one that is none of ours.
bool take(const Socket& socket, Arrived& arrived, bool& good) {
  std::byte bytes[64];
  alignas(cmsghdr) char control[128];
  iovec into{bytes, sizeof bytes};
  msghdr message{};
  message.msg_name = &arrived.from.at;
  message.msg_namelen = sizeof arrived.from.at;
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = recvmsg(socket.get(), &message, 0);
  if (count < 0) return false;
  arrived.from.size = message.msg_namelen;
  arrived.dscp = dscp_of(message);
  const auto datagram = from_wire<Datagram>(std::span(bytes).first(std::size_t(count)));
  good = bool(datagram);
  if (good) arrived.datagram = *datagram;
  return true;
}

}  // namespace

void DatagramCounter::add(std::uint32_t number, bool marked) {
  if (number >= seen_.size() || seen_[number]) return;
  seen_[number] = true;
  ++counted_.came;
  counted_.marked += marked ? 1 : 0;
}

EchoSocket::EchoSocket(const Socket& beside, std::uint16_t port, std::uint64_t token)
    : token_(token), counter_(kMaxDatagrams) {
  Endpoint at;
  if (getsockname(beside.get(), at.raw(), &at.size) != 0) return;
  Socket made = make(at);
  at.set_port(port);
  if (bind(made.get(), at.raw(), at.size) != 0) {
    at.set_port(0);
    if (bind(made.get(), at.raw(), at.size) != 0) return;
  }
  if (getsockname(made.get(), at.raw(), &at.size) != 0) return;
  port_ = at.port();
  socket_ = std::move(made);
}

void EchoSocket::answer() {
  Arrived arrived;
  bool good = false;
  // Not for ever: a stranger's flood must not keep this thread.
  for (int i = 0; i < 256 && take(socket_, arrived, good); ++i) {
    if (!good || arrived.datagram.token != token_ || arrived.datagram.echo) continue;
    counter_.add(arrived.datagram.number, arrived.dscp == kDscp);
    arrived.datagram.echo = true;
    const Buffer bytes = to_wire(arrived.datagram);
    mark(socket_);
    sendto(socket_.get(), bytes.data(), bytes.size(), 0, arrived.from.raw(), arrived.from.size);
  }
}

DatagramCount send_datagrams(const Socket& beside, std::uint16_t port, std::uint64_t token,
                             const MeasurementPlan& plan, const Deadline& deadline) {
  DatagramCounter counter(plan.datagrams);
  Endpoint to;
  if (port == 0 || getpeername(beside.get(), to.raw(), &to.size) != 0) return {};
  to.set_port(port);
  const Socket socket = make(to);
  if (connect(socket.get(), to.raw(), to.size) != 0) return {};
  mark(socket);
  const auto listen_until = [&](Clock::time_point end) {
    const Deadline wait{std::min(end, deadline.end), deadline.stop};
    while (counter.counted().came < plan.datagrams && wait_for(socket.get(), POLLIN, wait)) {
      Arrived arrived;
      bool good = false;
      // An error (the port is closed there) is taken off the socket by this, too.
      if (!take(socket, arrived, good) || !good) continue;
      if (arrived.datagram.token == token && arrived.datagram.echo)
        counter.add(arrived.datagram.number, arrived.dscp == kDscp);
    }
  };
  const auto begin = Clock::now();
  for (std::uint32_t number = 0; number < plan.datagrams && !deadline.stopped(); ++number) {
    const Buffer bytes = to_wire(Datagram{token, number, false});
    (void)send(socket.get(), bytes.data(), bytes.size(), 0);
    listen_until(begin + (number + 1) * kSendInterval);
  }
  listen_until(Clock::now() + kLate);
  return counter.counted();
}

}  // namespace longhaul::doctor
