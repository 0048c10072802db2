#pragma once
// Sockets for datagrams on one port. All calls come from the loop's thread.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longhaul/net/tcp.h"

namespace longhaul::net {

// An address and a port in the kernel's format.
struct UdpAddress {
  std::array<std::byte, 28> bytes{};  // a sockaddr_in or sockaddr_in6
  std::uint8_t size = 0;
  friend bool operator==(const UdpAddress&, const UdpAddress&) = default;
};

struct UdpOptions {
  // Numerical addresses, one socket each. "::" accepts IPv6 only.
  std::vector<std::string> hosts = {"::", "0.0.0.0"};
  std::uint16_t port = 0;
  std::size_t longest = 1500;  // longer received datagrams are dropped
  bool uses_segments = true;   // UDP_SEGMENT, if the kernel supports it
};

class UdpSocket {
 public:
  // Called with a received datagram and its source, both valid during the call.
  using Received = std::function<void(std::span<const std::byte>, const UdpAddress&)>;

  virtual ~UdpSocket() = default;
  // `host`: a numerical address. Returns an empty optional if this socket cannot reach it.
  virtual std::optional<UdpAddress> address(const std::string& host, std::uint16_t port) const = 0;
  // Sends consecutive datagrams of `bytes` in as few kernel calls as possible: a run of equal sizes
  // as one message that the kernel cuts (UDP_SEGMENT), all messages by sendmmsg. Never waits.
  // Datagrams are lost if the kernel has no buffer or route, or if they are too long for the path.
  // They are never fragmented. Returns the number of datagrams that the kernel accepted.
  virtual std::size_t send(const UdpAddress& to, std::span<const std::byte> bytes,
                           std::span<const std::uint32_t> sizes) = 0;
  // Sets the differentiated services code point of later datagrams (RFC 2474).
  virtual void set_dscp(unsigned dscp) = 0;
  virtual std::uint16_t port() const = 0;
};

// Returns an Error if the port is in use or this machine has none of the hosts.
Result<std::unique_ptr<UdpSocket>> open_udp(Loop&, const UdpOptions&, UdpSocket::Received);

}  // namespace longhaul::net
