#pragma once
// One end of a TLS 1.3 connection, without a socket: bytes that came from the peer go in, bytes to
// send come out. Both ends show a certificate; its site must be the dialled one, or one of the job.
// Sessions are never resumed: without early data that saves no round trip, and a certificate that
// has expired or been replaced since would go unnoticed.
//
// Memory: OpenSSL's, about 40 KB until the handshake is over; outgoing(), which the caller bounds
// by sending it before it reads or writes more. One thread at a time.
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"

namespace longhaul::secure {

class Session {
 public:
  struct Impl;
  // Made by Credentials.
  explicit Session(std::unique_ptr<Impl>);
  ~Session();

  bool has_dialled() const;
  // Bytes that came from the peer. They must live until wants_bytes() again.
  void receive(std::span<const std::byte>);
  bool wants_bytes() const;
  // True: the handshake is over, and the peer has proved its name as far as this end can tell. (The
  // end that dialled learns from a later read() that it was refused.) False: more bytes must come.
  // Error: who is there, and why it is not taken.
  Result<bool> handshake();
  bool is_established() const;
  // Fills `into` with what is there; 0: more bytes must come. Error: the peer has sent an alert or
  // changed bytes, or has ended the connection.
  Result<std::size_t> read(std::span<std::byte> into);
  Status write(std::span<const std::byte>);
  // To send to the peer, also after an Error: it says why. The caller removes what it has sent.
  Buffer& outgoing();

  // Sites that the peer's certificate names; empty before the handshake is over.
  const std::vector<std::string>& peer_sites() const;
  bool peer_is(std::string_view site) const;
  // The same bytes at both ends and known to nobody else (RFC 8446, 7.5), for one use per label.
  Buffer export_secret(std::string_view label, std::size_t size) const;

 private:
  std::unique_ptr<Impl> impl_;
};

// The alert of an end that has no room for another session (RFC 8446, 6.2), in place of one: the
// peer's user reads that reason.
Buffer no_room_alert();

}  // namespace longhaul::secure
