#pragma once
// What Credentials puts into a Session. For the sources of this folder alone.
#include <optional>

#include "longhaul/secure/openssl.h"
#include "longhaul/secure/session.h"

namespace longhaul::secure {

// SSL_CTX and what verification compares with; shared by the sessions that began with it.
struct SessionContext {
  openssl::Context ssl;
  std::string own_site;
  std::vector<std::string> sites;  // of the job: who may connect
};

struct Session::Impl {
  std::shared_ptr<const SessionContext> context;
  openssl::Connection ssl;
  std::string expected;  // the dialled site; "": any of the job
  bool dialled = false, has_begun = false;
  std::span<const std::byte> incoming;
  Buffer outgoing;
  std::optional<Error> refusal;  // of the peer's certificate, by this end
  std::vector<std::string> peer_sites;

  Error failure(int result);
};

// Null: OpenSSL has failed.
std::unique_ptr<Session> make_session(std::shared_ptr<const SessionContext>, std::string expected,
                                      bool dials);
// SSL_CTX_set_cert_verify_callback().
int verify_peer(X509_STORE_CTX*, void*);

}  // namespace longhaul::secure
