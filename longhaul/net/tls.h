#pragma once
// A stream under TLS 1.3 over another stream (secure/session.h). The handshake begins with the
// first read or write; those wait for it, and fail with the reason if it fails. Nothing of a read
// is delivered before the peer has shown its certificate.
//
// Memory: 64 KiB from the network, and 64 KiB to it with what TLS adds; before the handshake
// is over 4 KiB from the network. One thread: the loop's.
#include <memory>

#include "longhaul/net/stream.h"
#include "longhaul/net/tcp.h"
#include "longhaul/secure/session.h"

namespace longhaul::net {

struct TlsOptions {
  // Sent without TLS to a peer that has dialled and does not speak TLS, before the stream ends.
  Buffer plain_refusal = {};
};

// `loop` outlives the stream.
std::unique_ptr<Stream> make_tls_stream(Loop& loop, std::unique_ptr<Stream> below,
                                        std::unique_ptr<secure::Session>, TlsOptions = {});

}  // namespace longhaul::net
