#include "longhaul/secure/credentials.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>
#include <openssl/pem.h>

#include "longhaul/secure/openssl.h"

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
    return invalid(
        fmt::format("its certificate, or one that it depends on, has expired on {}; renew it: "
                    "longhaul keys issue",
                    time_text(valid.until)));
  if (now < valid.from)
    return invalid(fmt::format(
        "its certificate is not valid before {}, and by the clock of this machine it is {}; set "
        "the clock (NTP)",
        time_text(valid.from), time_text(now)));
  return Ok{};
}

bool use_key(SSL_CTX* context, const std::vector<openssl::Certificate>& chain,
             const std::string& key_text) {
  const openssl::Bio bio(BIO_new_mem_buf(key_text.data(), int(key_text.size())));
  const openssl::Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key || SSL_CTX_use_certificate(context, chain.front().get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    return false;
  return std::all_of(chain.begin() + 1, chain.end(), [&](const auto& one) {
    return SSL_CTX_add1_chain_cert(context, one.get()) == 1;
  });
}

// Peers take no more.
Status check_length(const std::vector<openssl::Certificate>& chain) {
  long bytes = 0;
  for (const auto& one : chain) bytes += i2d_X509(one.get(), nullptr) + 8;  // with its lengths
  if (bytes < kLongestChain) return Ok{};
  return invalid(fmt::format(
      "its certificates have {} bytes, and peers take {}: leave out the authority's own, and "
      "others that are not between it and the site's",
      bytes, kLongestChain));
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
  LH_LET(authority, folder_.read_authority());
  LH_LET(own, folder_.read_site(site_));
  const std::string file = folder_.site_file(site_) + ": ";
  const auto valid = check_match(own, authority);
  Status good = valid ? check_time(*valid) : Status(valid.error());
  if (good) good = use(own, authority);
  if (!good) return Error{good.error().kind, file + good.error().what};
  valid_until_ = valid->until;
  versions_ = now;
  return Ok{};
}

Result<bool> Credentials::refresh() {
  if (folder_.path().empty() || versions() == versions_) return false;
  LH_TRY(read());
  return true;
}

Status Credentials::use(const KeyPair& own, const std::string& authority) {
  LH_LET(chain, read_certificates(own.certificate));
  LH_TRY(check_length(chain));
  LH_LET(authorities, read_certificates(authority));
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
  if (!use_key(ssl, chain, own.key)) return failed_context("certificate and key");
  for (const auto& one : authorities)
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), one.get()) != 1)
      return failed_context("the authority's certificate");
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl), kTrustFlags);
  SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(ssl, verify_peer, nullptr);
  context->own_site = site_;
  context->sites = sites_;
  context_ = std::move(context);
  valid_until_ = validity_of(chain.front().get()).until;
  return Ok{};
}

std::unique_ptr<Session> Credentials::dial(const std::string& site) const {
  return make_session(context_, site, true);
}

std::unique_ptr<Session> Credentials::accept() const { return make_session(context_, "", false); }

}  // namespace longhaul::secure
