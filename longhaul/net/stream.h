#pragma once
// A two-way stream of bytes to one peer, over which frames go: TCP (tcp.h), later TLS, in tests a
// pair in memory. Asynchronous: every call returns at once and calls back from the loop.
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

namespace longhaul::net {

class Stream {
 public:
  using Done = std::function<void(Status)>;
  using Parts = std::array<std::span<const std::byte>, 3>;

  virtual ~Stream() = default;  // what is under way is called back with an Error, or not at all
  // Fills all of `into`, which must live until `done`. One read at a time; likewise writes.
  virtual void read(std::span<std::byte> into, Done done) = 0;
  virtual void write(Parts parts, Done done) = 0;
  // Reads and writes under way end with an Error, soon. May be called twice.
  virtual void close() = 0;
  // Bytes moved so far, also of reads and writes that are not whole: progress is life.
  virtual std::uint64_t received() const = 0;
  virtual std::uint64_t sent() const = 0;
  // The other side has closed it, although there may be bytes to be read yet.
  virtual bool closed_by_peer() const = 0;
  // How the network is to treat it, where there is one that could: the congestion control by its
  // name ("bbr"), and the DSCP of its packets (RFC 2474). An Error: the kernel does not offer it.
  virtual Status set_congestion(const std::string&) { return Ok{}; }
  virtual void set_dscp(unsigned /*dscp*/) {}
  // "10.0.0.7:7000", for messages to the user.
  virtual std::string peer() const = 0;
};

}  // namespace longhaul::net
