#pragma once
// A socket for datagrams. One thread, the loop's, calls all of it.
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "longhaul/net/tcp.h"

namespace longhaul::net {

class UdpSocket {
 public:
  // A datagram that came; the bytes are valid during the call.
  using Received = std::function<void(std::span<const std::byte>)>;

  virtual ~UdpSocket() = default;
  // The parts are one datagram. Never waits. False: it was not sent; the kernel has no room for it,
  // or no way to that address. `host`: a numerical address.
  virtual bool send(const std::string& host, std::uint16_t port, const Stream::Parts&) = 0;
  // The differentiated services code point of what is sent (RFC 2474).
  virtual void set_dscp(unsigned dscp) = 0;
  virtual std::uint16_t port() const = 0;
};

// Of all addresses of this machine, or of the loopback alone. Longer datagrams than `longest` are
// dropped. Error: the port is taken.
Result<std::unique_ptr<UdpSocket>> open_udp(Loop&, bool loopback_only, std::uint16_t port,
                                            std::size_t longest, UdpSocket::Received);

}  // namespace longhaul::net
