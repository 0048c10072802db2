#include "longhaul/doctor/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

namespace longhaul::doctor {
namespace {

using namespace std::chrono_literals;

constexpr auto kLingers = 1s;        // for its last words
constexpr int kUnsent = 256 * 1024;  // as training has it: what the kernel holds but has not sent

Error failed() { return unavailable(std::strerror(errno)); }
bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void tune(int descriptor) {
  const int on = 1, idle_s = 10, between_s = 5, probes = 4;
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsent, sizeof kUnsent);
  // A machine that loses its power says nothing; who waits for it learns of that in half a minute.
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

Result<Socket> dial_one(const addrinfo& to, const Deadline& deadline) {
  Socket made(socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (made.get() < 0) return failed();
  tune(made.get());
  if (connect(made.get(), to.ai_addr, to.ai_addrlen) == 0) return made;
  if (errno != EINPROGRESS) return failed();
  if (!wait_for(made.get(), POLLOUT, deadline))
    return unavailable("no answer: is it up, and not behind a firewall?");
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return unavailable(std::strerror(error));
  return made;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status wait_for(int descriptor, short events, const Deadline& deadline) {
  return wait_for({&descriptor, 1}, events, deadline);
}

Status wait_for(std::span<const int> descriptors, short events, const Deadline& deadline) {
  std::vector<pollfd> at;
  for (const int descriptor : descriptors) at.push_back({descriptor, events, 0});
  for (;;) {
    if (deadline.stopped()) return unavailable("stopped");
    const auto left = deadline.end - Clock::now();
    if (left <= 0ms) return Error{Error::Kind::timed_out, "nothing came in time"};
    // In slices, so that a stop is noticed; rounded up, so that the last one does not spin.
    const int count =
        poll(at.data(), at.size(), int(std::min<Clock::duration>(left, 100ms) / 1ms) + 1);
    if (count > 0) return Ok{};
    if (count < 0 && errno != EINTR) return failed();
  }
}

Result<std::size_t> Socket::receive(std::span<std::byte> into, const Deadline& deadline) const {
  for (;;) {
    const ssize_t count = recv(descriptor_, into.data(), into.size(), 0);
    if (count > 0) return std::size_t(count);
    if (count == 0) return unavailable("it closed the connection");
    if (!try_again()) return failed();
    LH_TRY(wait_for(descriptor_, POLLIN, deadline));
  }
}

Status Socket::read(std::span<std::byte> into, const Deadline& deadline) const {
  while (!into.empty()) {
    const auto count = read_some(into, deadline);
    if (!count) return count.error();
    into = into.subspan(*count);
  }
  return Ok{};
}

Status Socket::send(std::span<const std::byte> bytes, const Deadline& deadline) const {
  while (!bytes.empty()) {
    const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && !try_again()) return failed();
    if (count < 0) LH_TRY(wait_for(descriptor_, POLLOUT, deadline));
    bytes = bytes.subspan(std::size_t(std::max<ssize_t>(count, 0)));
  }
  return Ok{};
}

// --- TLS ----------------------------------------------------------------------------------------

Status Socket::send_outgoing(const Deadline& deadline) const {
  Buffer& outgoing = tls_->session->outgoing();
  if (outgoing.empty()) return Ok{};
  const Status sent = send(outgoing, deadline);
  outgoing.clear();
  return sent;
}

Status Socket::start_tls(std::unique_ptr<secure::Session> session, const Deadline& deadline) {
  if (!session) return unavailable("no memory for TLS");
  tls_ = std::make_unique<Tls>(Tls{.session = std::move(session)});
  for (;;) {
    const auto done = tls_->session->handshake();
    const Status sent = send_outgoing(deadline);  // also the alert that says why not
    if (!done) return done.error();
    if (!sent) return sent;
    if (*done) return Ok{};
    const auto count = receive(tls_->incoming, deadline);
    if (!count)
      return Error{count.error().kind, count.error().what +
                                           " in the TLS handshake; start all sites alike: with "
                                           "--keys, or all with --insecure"};
    tls_->session->receive(std::span<const std::byte>(tls_->incoming).first(*count));
  }
}

Result<std::size_t> Socket::read_some(std::span<std::byte> into, const Deadline& deadline) const {
  if (!tls_) return receive(into, deadline);
  for (;;) {
    const auto got = tls_->session->read(into);
    LH_TRY(send_outgoing(deadline));
    if (!got || *got > 0) return got;
    const auto count = receive(tls_->incoming, deadline);
    if (!count) return count.error();
    tls_->session->receive(std::span<const std::byte>(tls_->incoming).first(*count));
  }
}

Status Socket::write(std::span<const std::byte> bytes, const Deadline& deadline) const {
  if (!tls_) return send(bytes, deadline);
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), tls_->incoming.size()));
    bytes = bytes.subspan(piece.size());
    LH_TRY(tls_->session->write(piece));
    LH_TRY(send_outgoing(deadline));
  }
  return Ok{};
}

void Socket::finish(const Deadline& deadline) const {
  shutdown(descriptor_, SHUT_WR);
  std::byte dropped[4096];
  const Deadline soon = deadline.at_most(kLingers);
  while (receive(dropped, soon))
    if (Clock::now() >= soon.end) return;
}

// --- what the kernel knows ----------------------------------------------------------------------

void Socket::ask_for(const std::string& congestion) const {
  if (congestion.empty()) return;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
             socklen_t(congestion.size()));
}

PathInfo Socket::path() const {
  PathInfo known;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) known.mtu = info.tcpi_pmtu;
  char name[16] = {};
  socklen_t length = sizeof name;
  if (getsockopt(descriptor_, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0)
    known.congestion = std::string(name, strnlen(name, sizeof name));
  return known;
}

std::string Socket::peer() const {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getpeername(descriptor_, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&at), size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "a peer that is gone";
  return at.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                  : fmt::format("{}:{}", host, port);
}

Result<Socket> dial(const net::Address& address, const Deadline& deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0)
    return unavailable(fmt::format("this name does not resolve: {}", gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> keep(found, freeaddrinfo);
  Result<Socket> made = unavailable("the name has no address");
  std::size_t left = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) ++left;
  for (const addrinfo* one = found; one != nullptr && !made; one = one->ai_next)
    made = dial_one(*one, deadline.at_most((deadline.end - Clock::now()) / left--));
  return made;
}

std::optional<Socket> accept(std::span<const int> listening_sockets, const Deadline& deadline) {
  if (!wait_for(listening_sockets, POLLIN, deadline)) return std::nullopt;
  for (const int listening_socket : listening_sockets) {
    const int made = accept4(listening_socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (made < 0) continue;
    tune(made);
    return Socket(made);
  }
  return std::nullopt;
}

bool kernel_has(const std::string& congestion) {
  const Socket probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return setsockopt(probe.get(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                    socklen_t(congestion.size())) == 0;
}

}  // namespace longhaul::doctor
