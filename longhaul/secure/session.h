#pragma once
// One end of a TLS 1.3 connection, without a socket: received bytes go in, bytes to send come out.
// Both ends show a certificate. Its site must be the dialled one, or one of the job. Sessions are
// never resumed: without early data resumption saves no round trip, and a certificate that has
// expired or was replaced would go unnoticed.
//
// Memory: OpenSSL's, about 40 KB until the end of the handshake; outgoing(), which the caller
// bounds by sending it before it reads or writes more. One thread at a time.
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
  // Created by Credentials.
  explicit Session(std::unique_ptr<Impl>);
  ~Session();

  bool has_dialled() const;
  // Passes bytes from the peer. They must live until wants_bytes() returns true again.
  void receive(std::span<const std::byte>);
  bool wants_bytes() const;
  // Continues the handshake. Returns true when it has ended and the peer has proved its name as far
  // as this end can tell. (The dialling end learns of a refusal from a later read().) Returns false
  // if more bytes are needed, or an Error with the peer's name and the reason against it.
  Result<bool> handshake();
  bool is_established() const;
  // Fills `into` with decrypted bytes and returns their number; 0: more bytes are needed. Returns
  // an Error if the peer has sent an alert, bytes were changed, or the connection has ended.
  Result<std::size_t> read(std::span<std::byte> into);
  Status write(std::span<const std::byte>);
  // Returns the bytes for the peer, also after an Error: they contain the reason. The caller must
  // remove sent bytes.
  Buffer& outgoing();

  // Returns the sites in the peer's certificate; empty before the handshake has ended.
  const std::vector<std::string>& peer_sites() const;
  bool peer_is(std::string_view site) const;
  // Returns secret bytes, equal at both ends and unknown to others (RFC 8446, 7.5). One use per
  // label.
  Buffer export_secret(std::string_view label, std::size_t size) const;

 private:
  std::unique_ptr<Impl> impl_;
};

// Returns the alert of an end without room for another session (RFC 8446, 6.2). The peer's user
// sees that reason.
Buffer no_room_alert();

}  // namespace longhaul::secure
