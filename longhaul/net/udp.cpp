#include "longhaul/net/udp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace longhaul::net {
namespace {

// Datagrams read before the loop turns to others.
constexpr int kReadAtOnce = 64;
constexpr int kKernelBytes = 1 << 20;

class KernelUdpSocket final : public UdpSocket {
 public:
  KernelUdpSocket(int descriptor, bool is_v6, std::size_t longest, Received received)
      : descriptor_(descriptor),
        is_v6_(is_v6),
        received_(std::move(received)),
        buffer_(longest + 1) {}
  ~KernelUdpSocket() override {
    watch_.reset();
    ::close(descriptor_);
  }
  void start(Loop& loop) {
    watch_ = watch_readable(loop, descriptor_, [this] { read(); });
  }

  bool send(const std::string& host, std::uint16_t port, const Stream::Parts& parts) override {
    const Target* to = target(host, port);
    if (!to) return false;
    std::array<iovec, std::tuple_size_v<Stream::Parts>> pieces{};
    std::size_t size = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      pieces[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
      size += parts[i].size();
    }
    msghdr message{};
    message.msg_name = const_cast<sockaddr_storage*>(&to->address);
    message.msg_namelen = to->size;
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return ::sendmsg(descriptor_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == ssize_t(size);
  }
  void set_dscp(unsigned dscp) override {
    const int value = int(dscp << 2);
    ::setsockopt(descriptor_, IPPROTO_IP, IP_TOS, &value, sizeof value);
    if (is_v6_) ::setsockopt(descriptor_, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof value);
  }
  std::uint16_t port() const override {
    sockaddr_storage at{};
    socklen_t size = sizeof at;
    if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&at), &size) != 0) return 0;
    return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(at).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(at).sin_port);
  }

 private:
  struct Target {
    sockaddr_storage address{};
    socklen_t size = 0;
  };

  // A socket of IPv6 reaches IPv4 by mapped addresses.
  const Target* target(const std::string& host, std::uint16_t port) {
    Target& to = targets_[{host, port}];
    if (to.size > 0) return &to;
    if (is_v6_) {
      auto& v6 = reinterpret_cast<sockaddr_in6&>(to.address);
      const std::string text = host.find(':') == std::string::npos ? "::ffff:" + host : host;
      if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) != 1) return nullptr;
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(port);
      to.size = sizeof v6;
    } else {
      auto& v4 = reinterpret_cast<sockaddr_in&>(to.address);
      if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return nullptr;
      v4.sin_family = AF_INET;
      v4.sin_port = htons(port);
      to.size = sizeof v4;
    }
    return &to;
  }

  // An error of the kernel is of a datagram that was sent (no port, no route): others go on.
  void read() {
    for (int i = 0; i < kReadAtOnce; ++i) {
      const ssize_t size = ::recv(descriptor_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (size > 0 && std::size_t(size) < buffer_.size())
        received_(std::span(buffer_).first(std::size_t(size)));
    }
  }

  const int descriptor_;
  const bool is_v6_;
  const Received received_;
  std::vector<std::byte> buffer_;
  std::map<std::pair<std::string, std::uint16_t>, Target> targets_;
  std::unique_ptr<Watch> watch_;
};

bool bind_to(int descriptor, bool is_v6, bool loopback_only, std::uint16_t port) {
  if (is_v6) {
    const int off = 0;
    ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_port = htons(port);
    at.sin6_addr = in6addr_any;
    return ::bind(descriptor, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  }
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  return ::bind(descriptor, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
}

}  // namespace

Result<std::unique_ptr<UdpSocket>> open_udp(Loop& loop, bool loopback_only, std::uint16_t port,
                                            std::size_t longest, UdpSocket::Received received) {
  int saved = 0;
  // On a machine without IPv6 the socket is one of IPv4, as one of the loopback is.
  for (const bool is_v6 : {true, false}) {
    if (is_v6 && loopback_only) continue;
    const int descriptor =
        ::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor >= 0 && bind_to(descriptor, is_v6, loopback_only, port)) {
      ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &kKernelBytes, sizeof kKernelBytes);
      auto socket =
          std::make_unique<KernelUdpSocket>(descriptor, is_v6, longest, std::move(received));
      socket->start(loop);
      return std::unique_ptr<UdpSocket>(std::move(socket));
    }
    saved = errno;
    if (descriptor >= 0) ::close(descriptor);
  }
  return unavailable(fmt::format("UDP port {}: {}", port, std::strerror(saved)));
}

}  // namespace longhaul::net
