#pragma once
// A two-way stream of bytes to one peer: TCP (tcp.h), TLS over it (tls.h), or in memory in tests.
// Asynchronous: every call returns at once and calls back from the loop's thread.
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

namespace longhaul::secure {
class Session;
}

namespace longhaul::net {

class Stream {
 public:
  using Done = std::function<void(Status)>;
  using DoneSome = std::function<void(Result<std::size_t>)>;
  using Parts = std::array<std::span<const std::byte>, 3>;

  virtual ~Stream() = default;  // pending calls end with an Error, or get no callback
  // Fills all of `into`, which must live until `done`. One read at a time; likewise writes.
  virtual void read(std::span<std::byte> into, Done done) = 0;
  // Fills as much of `into` as there is, at least a byte. A read as read() is.
  virtual void read_some(std::span<std::byte> into, DoneSome done) = 0;
  virtual void write(Parts parts, Done done) = 0;
  // Pending reads and writes end with an Error, soon. May be called twice.
  virtual void close() = 0;
  // The same, but what was written still reaches the peer, if it reads it within some seconds.
  virtual void finish() { close(); }
  // Bytes moved so far, incomplete reads and writes included: any progress shows a live peer.
  virtual std::uint64_t received() const = 0;
  virtual std::uint64_t sent() const = 0;
  // The peer has closed the stream; unread bytes may remain.
  virtual bool closed_by_peer() const = 0;
  // Congestion control by name ("bbr"), and the DSCP of outgoing packets (RFC 2474). Error: the
  // kernel does not offer it.
  virtual Status set_congestion(const std::string&) { return Ok{}; }
  virtual void set_dscp(unsigned /*dscp*/) {}
  // Sets the maximum rate of sending, in bytes per second; infinite: no limit.
  virtual void set_pacing(double /*bytes_per_second*/) {}
  virtual int descriptor() const { return -1; }  // the kernel's socket; -1: none
  // "10.0.0.7:7000", for messages to the user.
  virtual std::string peer() const = 0;
  // Returns the session that proves the peer's identity, once data was read from the peer. nullptr:
  // no proof and no encryption.
  virtual const secure::Session* security() const { return nullptr; }
};

}  // namespace longhaul::net
