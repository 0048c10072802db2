#pragma once
// Sockets for datagrams, of one port. One thread, the loop's, calls all of it.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longhaul/net/tcp.h"

namespace longhaul::net {

// An address and a port, as the kernel has them.
struct UdpAddress {
  std::array<std::byte, 28> bytes{};  // of a sockaddr_in or sockaddr_in6
  std::uint8_t size = 0;
  friend bool operator==(const UdpAddress&, const UdpAddress&) = default;
};

struct UdpOptions {
  // Numerical; a socket for each. "::" is IPv6 alone.
  std::vector<std::string> hosts = {"::", "0.0.0.0"};
  std::uint16_t port = 0;
  std::size_t longest = 1500;  // longer datagrams that come are dropped
  bool uses_segments = true;   // UDP_SEGMENT, where the kernel offers it
};

class UdpSocket {
 public:
  // A datagram that came, and where from; both are valid during the call.
  using Received = std::function<void(std::span<const std::byte>, const UdpAddress&)>;

  virtual ~UdpSocket() = default;
  // `host`: a numerical address. Empty: it is none that this socket reaches.
  virtual std::optional<UdpAddress> address(const std::string& host, std::uint16_t port) const = 0;
  // Datagrams that lie one behind the other in `bytes`, in as few calls of the kernel as may be:
  // runs of one size as one message that the kernel cuts (UDP_SEGMENT), all messages by sendmmsg.
  // Never waits: what the kernel has no room or no way for is lost, as on the way. None is
  // fragmented: what is longer than the path takes is lost. Returns how many the kernel took.
  virtual std::size_t send(const UdpAddress& to, std::span<const std::byte> bytes,
                           std::span<const std::uint32_t> sizes) = 0;
  // The differentiated services code point of what is sent (RFC 2474).
  virtual void set_dscp(unsigned dscp) = 0;
  virtual std::uint16_t port() const = 0;
};

// Error: the port is taken, or this machine has none of the hosts.
Result<std::unique_ptr<UdpSocket>> open_udp(Loop&, const UdpOptions&, UdpSocket::Received);

}  // namespace longhaul::net
