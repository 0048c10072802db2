#pragma once
// TCP sockets with bounded waits, under TLS after start_tls(). Each is used by one thread at
// a time. Errors say what failed; the caller adds the peer.
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "longhaul/base/result.h"
#include "longhaul/doctor/deadline.h"
#include "longhaul/doctor/messages.h"
#include "longhaul/net/tcp.h"
#include "longhaul/secure/session.h"

namespace longhaul::doctor {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), tls_(std::move(other.tls_)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(tls_, other.tls_);
    return *this;
  }
  ~Socket();

  int get() const { return descriptor_; }
  // From now on all bytes go under TLS. Error: who is there, and why it is not taken.
  Status start_tls(std::unique_ptr<secure::Session>, const Deadline&);
  const secure::Session* security() const { return tls_ ? tls_->session.get() : nullptr; }
  // Reads at least one byte. Errors: time-out, closed by the peer.
  Result<std::size_t> read_some(std::span<std::byte> into, const Deadline&) const;
  Status read(std::span<std::byte> into, const Deadline&) const;
  Status write(std::span<const std::byte> bytes, const Deadline&) const;
  // Nothing more is written, and the peer has time to read what was: a socket that is closed with
  // bytes unread takes that from it.
  void finish(const Deadline&) const;
  // Sets the congestion control; keeps the system's where the kernel lacks this one.
  void ask_for(const std::string& congestion) const;
  PathInfo path() const;     // what the kernel knows
  std::string peer() const;  // "10.0.0.1:7000"

 private:
  struct Tls {
    std::unique_ptr<secure::Session> session;
    Buffer incoming = Buffer(32 * 1024);
  };
  Result<std::size_t> receive(std::span<std::byte> into, const Deadline&) const;
  Status send(std::span<const std::byte> bytes, const Deadline&) const;
  Status send_outgoing(const Deadline&) const;

  int descriptor_ = -1;
  std::unique_ptr<Tls> tls_;
};

// Waits for `events` (poll(2)) on a descriptor, or on any of several. Error: time-out, or stopped.
Status wait_for(int descriptor, short events, const Deadline&);
Status wait_for(std::span<const int> descriptors, short events, const Deadline&);

// Tries every address of the name, each for its share of the time. The system's resolver bounds the
// look-up.
Result<Socket> dial(const net::Address&, const Deadline&);
// The next incoming connection, or empty at the deadline. These listen and do not block.
std::optional<Socket> accept(std::span<const int> listening_sockets, const Deadline&);

bool kernel_has(const std::string& congestion);  // or can load it

}  // namespace longhaul::doctor
