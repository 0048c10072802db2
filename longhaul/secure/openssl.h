#pragma once
// Shared code of this folder: OpenSSL's objects with owners, X.509 certificates, and the contents
// of a Session.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "longhaul/base/printable.h"
#include "longhaul/secure/certificates.h"
#include "longhaul/secure/session.h"

namespace longhaul::secure::openssl {

template <auto kFree>
struct Free {
  void operator()(auto* object) const { kFree(object); }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, Free<EVP_CIPHER_CTX_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Connection = std::unique_ptr<SSL, Free<SSL_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
using Derivation = std::unique_ptr<EVP_KDF_CTX, Free<EVP_KDF_CTX_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using Store = std::unique_ptr<X509_STORE, Free<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>>;
struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};
using Stack = std::unique_ptr<STACK_OF(X509), FreeStack>;  // owns no certificate

// Returns this thread's oldest OpenSSL error and clears the queue; "unknown error" without one.
std::string take_error();

}  // namespace longhaul::secure::openssl

namespace longhaul::secure {

// Returns all certificates of a text, at least one.
Result<std::vector<openssl::Certificate>> read_certificates(const std::string& pem);
std::vector<std::string> sites_of(const X509*);  // DNS entries
Validity validity_of(const X509*);
std::string issuer_of(const X509*);
// Each certificate in ca.crt is trusted by itself, root or not.
inline constexpr unsigned long kTrustFlags = X509_V_FLAG_PARTIAL_CHAIN;
// Returns the reason why X509_verify_cert() rejects it: a text that follows "its certificate".
std::string reason_of(int error, const X509*);

// Contents of a certificate with a new key.
struct CertificateSpec {
  std::string name;
  Validity valid = {};
  std::string constraints = {}, key_usage = {}, purposes = {};  // OpenSSL's extension syntax
  std::string site = {};                                        // DNS entry
};
// `authority`: signer's key pair; null: self-signed.
Result<KeyPair> make_certificate(const CertificateSpec&, const KeyPair* authority);
// Returns at most 80 characters, with '?' for all but printable ASCII. For names written by a peer.
std::string printable(std::string);

// SSL_CTX and the values for verification; shared by the sessions that began with it.
struct SessionContext {
  openssl::Context ssl;
  std::string own_site;
  std::vector<std::string> sites;  // sites of the job, which may connect
};

struct Session::Impl {
  std::shared_ptr<const SessionContext> context;
  openssl::Connection ssl;
  std::string expected;  // dialled site; "": any site of the job
  bool dialled = false, has_begun = false;
  std::span<const std::byte> incoming;
  Buffer outgoing;
  std::optional<Error> refusal;  // this end's refusal of the peer's certificate
  std::vector<std::string> peer_sites;

  Error failure(int result);
};

// Returns null if OpenSSL has failed.
std::unique_ptr<Session> make_session(std::shared_ptr<const SessionContext>, std::string expected,
                                      bool dials);
// Callback for SSL_CTX_set_cert_verify_callback().
int verify_peer(X509_STORE_CTX*, void*);

}  // namespace longhaul::secure
