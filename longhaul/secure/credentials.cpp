#include "longhaul/secure/credentials.h"

#include <ctime>

#include <fmt/format.h>
#include <openssl/pem.h>

#include "longhaul/secure/session_impl.h"
#include "longhaul/secure/x509.h"

namespace longhaul::secure {
namespace {

constexpr long kLongestChain = 16 * 1024;  // bytes of a peer's certificates

Error failed_context(const char* what) {
  return unavailable(fmt::format("OpenSSL: {}: {}", what, openssl::take_error()));
}

// Of the machine: OpenSSL compares with the same clock.
Status check_time(Validity valid) {
  const std::int64_t now = std::time(nullptr);
  if (now > valid.until)
    return invalid(fmt::format("this certificate has expired on {}; renew it: longhaul keys issue",
                               time_text(valid.until)));
  if (now < valid.from)
    return invalid(fmt::format(
        "this certificate is not valid before {}, and by the clock of this machine it is {}; set "
        "the clock (NTP)",
        time_text(valid.from), time_text(now)));
  return Ok{};
}

bool use_key(SSL_CTX* context, const KeyPair& own) {
  const openssl::Certificate certificate = read_certificate(own.certificate);
  const openssl::Bio bio(BIO_new_mem_buf(own.key.data(), int(own.key.size())));
  const openssl::Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  return certificate && key && SSL_CTX_use_certificate(context, certificate.get()) == 1 &&
         SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1;
}

}  // namespace

Result<std::unique_ptr<Credentials>> Credentials::open(KeyFolder folder, std::string site,
                                                       std::vector<std::string> sites) {
  std::unique_ptr<Credentials> made(
      new Credentials(std::move(folder), std::move(site), std::move(sites)));
  LH_TRY(made->read());
  return made;
}

Result<std::unique_ptr<Credentials>> Credentials::make(const KeyPair& own,
                                                       const std::string& authority,
                                                       std::string site,
                                                       std::vector<std::string> sites) {
  std::unique_ptr<Credentials> made(
      new Credentials(KeyFolder(""), std::move(site), std::move(sites)));
  LH_TRY(made->use(own, authority));
  return made;
}

std::pair<std::uint64_t, std::uint64_t> Credentials::versions() const {
  return {version_of(folder_.authority_file()), version_of(folder_.site_file(site_))};
}

// The versions first: what changes while it is read is read again.
Status Credentials::read() {
  const auto now = versions();
  const auto authority = folder_.read_authority();
  if (!authority) return authority.error();
  const auto own = folder_.read_site(site_);
  if (!own) return own.error();
  const std::string file = folder_.site_file(site_) + ": ";
  const auto facts = facts_of(own->certificate);
  if (!facts) return Error{facts.error().kind, file + facts.error().what};
  if (const Status good = check_time(facts->valid); !good)
    return Error{good.error().kind, file + good.error().what};
  LH_TRY(use(*own, *authority));
  versions_ = now;
  return Ok{};
}

Result<bool> Credentials::refresh() {
  if (folder_.path().empty() || versions() == versions_) return false;
  LH_TRY(read());
  return true;
}

Status Credentials::use(const KeyPair& own, const std::string& authority) {
  const auto facts = facts_of(own.certificate);
  if (!facts) return facts.error();
  auto context = std::make_shared<SessionContext>();
  context->ssl.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const ssl = context->ssl.get();
  if (ssl == nullptr || SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(ssl,
                               "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:"
                               "TLS_AES_256_GCM_SHA384") != 1)
    return failed_context("TLS 1.3");
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(ssl, 0);
  SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_max_cert_list(ssl, kLongestChain);
  if (!use_key(ssl, own)) return failed_context("certificate and key");
  const openssl::Certificate issuer = read_certificate(authority);
  if (!issuer || X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), issuer.get()) != 1)
    return failed_context("the authority's certificate");
  SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(ssl, verify_peer, nullptr);
  context->own_site = site_;
  context->sites = sites_;
  context_ = std::move(context);
  valid_until_ = facts->valid.until;
  return Ok{};
}

std::unique_ptr<Session> Credentials::dial(const std::string& site) const {
  return make_session(context_, site, true);
}

std::unique_ptr<Session> Credentials::accept() const { return make_session(context_, "", false); }

}  // namespace longhaul::secure
