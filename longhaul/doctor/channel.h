#pragma once
// Messages over a socket: a head of 12 bytes (magic, version, kind, size), then the message. Used
// by one thread at a time. Every Error names the peer and the expected message.
#include <array>

#include "longhaul/base/wire.h"
#include "longhaul/doctor/messages.h"
#include "longhaul/doctor/socket.h"

namespace longhaul::doctor {

inline constexpr std::uint32_t kMagic = 0x5244484c;      // "LHDR" on the wire
inline constexpr std::uint32_t kMaxMessage = 64 * 1024;  // also of bulk
inline constexpr std::size_t kHead = 12;

struct Head {
  Kind kind = Kind::bye;
  std::uint32_t size = 0;  // of what follows
};
std::array<std::byte, kHead> encode(const Head&);
// Errors: not a longhaul message, another version, an unknown kind, or too long.
Result<Head> decode(std::span<const std::byte, kHead>);

std::string_view name_of(Kind);

class Channel {
 public:
  Channel(Socket socket, std::string peer) : socket_(std::move(socket)), peer_(std::move(peer)) {}

  template <Fielded T>
  Status send(Kind kind, const T& message, const Deadline& deadline) const {
    return send_bytes(kind, to_wire(message), deadline);
  }
  // The next message, which must be of this kind. A refusal is an Error with the peer's reason.
  template <Fielded T>
  Result<T> receive(Kind kind, const Deadline& deadline) const {
    auto body = receive_bytes(kind, deadline);
    if (!body) return body.error();
    return read<T>(kind, *body);
  }
  struct Any {
    Kind kind = Kind::bye;
    Buffer body;
  };
  Result<Any> receive_any(const Deadline&) const;
  template <Fielded T>
  Result<T> read(Kind kind, const Buffer& body) const {
    auto message = from_wire<T>(body);
    if (!message) return wrong(kind, message.error().what);
    return message;
  }
  // Of a message of this kind: an Error that names the peer.
  Error wrong(Kind kind, const std::string& what) const;

  const Socket& socket() const { return socket_; }
  const std::string& peer() const { return peer_; }
  void rename(std::string peer) { peer_ = std::move(peer); }

 private:
  Status send_bytes(Kind, const Buffer& body, const Deadline&) const;
  Result<Buffer> receive_bytes(Kind, const Deadline&) const;

  Socket socket_;
  std::string peer_;
};

}  // namespace longhaul::doctor
