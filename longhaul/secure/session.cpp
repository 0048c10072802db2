#include "longhaul/secure/session.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "longhaul/secure/openssl.h"

namespace longhaul::secure {
namespace {

constexpr std::byte kHandshakeRecord{0x16}, kAlertRecord{0x15};

// --- between OpenSSL and the two buffers --------------------------------------------------------

Session::Impl& impl_of(BIO* bio) { return *static_cast<Session::Impl*>(BIO_get_data(bio)); }

int bio_read(BIO* bio, char* into, std::size_t size, std::size_t* count) {
  auto& incoming = impl_of(bio).incoming;
  BIO_clear_retry_flags(bio);
  *count = std::min(size, incoming.size());
  if (*count == 0) {
    BIO_set_retry_read(bio);
    return 0;
  }
  std::copy_n(incoming.begin(), *count, reinterpret_cast<std::byte*>(into));
  incoming = incoming.subspan(*count);
  return 1;
}

int bio_write(BIO* bio, const char* from, std::size_t size, std::size_t* count) {
  Buffer& outgoing = impl_of(bio).outgoing;
  const auto* const bytes = reinterpret_cast<const std::byte*>(from);
  outgoing.insert(outgoing.end(), bytes, bytes + size);
  *count = size;
  return 1;
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "longhaul");
    LH_CHECK(made != nullptr);
    BIO_meth_set_read_ex(made, bio_read);
    BIO_meth_set_write_ex(made, bio_write);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

// --- reasons ------------------------------------------------------------------------------------

std::string list(const std::vector<std::string>& sites) {
  std::string text;
  for (std::size_t i = 0; i < sites.size() && i < 3; ++i)
    text += (i > 0 ? ", " : "") + printable(sites[i]);
  return text.empty() ? "no site" : text + (sites.size() > 3 ? " ..." : "");
}

// Returns the text of a peer's alert about this end's certificate or bytes (RFC 8446, 6.2).
std::string alert_text(int alert, const std::string& own_site) {
  static const std::map<int, const char*> kReasons = {
      {SSL_AD_UNKNOWN_CA, "it is of another authority, or self-signed"},
      {SSL_AD_CERTIFICATE_EXPIRED, "it has expired by the peer's clock"},
      {SSL_AD_BAD_CERTIFICATE,
       "it is not valid yet by the peer's clock, or not of a site of the peer's job"},
      {SSL_AD_CERTIFICATE_REVOKED, "it is revoked"},
      {SSL_AD_UNSUPPORTED_CERTIFICATE, "its extended key usage lacks clientAuth or serverAuth"},
      {SSL_AD_CERTIFICATE_UNKNOWN, SSL_alert_desc_string_long(SSL_AD_CERTIFICATE_UNKNOWN)},
      {SSL_AD_CERTIFICATE_REQUIRED, SSL_alert_desc_string_long(SSL_AD_CERTIFICATE_REQUIRED)},
      {SSL_AD_ACCESS_DENIED, SSL_alert_desc_string_long(SSL_AD_ACCESS_DENIED)}};
  if (alert == SSL_AD_INTERNAL_ERROR)  // see no_room_alert()
    return "it has no room for this call: too many others have not said hello yet; or an error of "
           "its own ends the connection";
  const auto reason = kReasons.find(alert);
  if (reason == kReasons.end())
    return fmt::format("it ends the connection with the TLS alert \"{}\"",
                       SSL_alert_desc_string_long(alert));
  return fmt::format(
      "it refuses the certificate of this site ({}): {}; the output of the peer says more",
      own_site, reason->second);
}

}  // namespace

// Errors of the peer's reasons come before those of OpenSSL, which are general.
Error Session::Impl::failure(int result) {
  const int error = SSL_get_error(ssl.get(), result);
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  const std::string text = openssl::take_error();
  if (refusal) return *refusal;
  if (error == SSL_ERROR_ZERO_RETURN) return unavailable("it has ended the TLS connection");
  if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET && reason < 1256)
    return malformed(alert_text(reason - SSL_AD_REASON_OFFSET, context->own_site));
  if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return malformed("it shows no certificate; start it with --keys");
  if (SSL_is_init_finished(ssl.get()))
    return malformed("bytes were changed on the way, or are not of TLS (" + text + ")");
  return malformed("the TLS handshake failed (" + text + ")");
}

int verify_peer(X509_STORE_CTX* store, void*) {
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& self = *static_cast<Session::Impl*>(SSL_get_app_data(ssl));
  const X509* const shown = X509_STORE_CTX_get0_cert(store);
  const std::vector<std::string> sites = sites_of(shown);
  const std::string whose = fmt::format("it shows a certificate of {}: ", list(sites));
  if (X509_verify_cert(store) != 1) {
    const int error = X509_STORE_CTX_get_error(store);
    const X509* const at = X509_STORE_CTX_get_current_cert(store);
    self.refusal =
        malformed(whose + "its certificate " + reason_of(error, at != nullptr ? at : shown));
    return 0;
  }
  const auto has = [&](const std::string& site) {
    return std::find(sites.begin(), sites.end(), site) != sites.end();
  };
  const auto& allowed = self.context->sites;
  if (!self.expected.empty() && !has(self.expected))
    self.refusal = malformed(fmt::format(
        "{}expected {}; look at [[site]] address, and at the keys there", whose, self.expected));
  else if (std::none_of(allowed.begin(), allowed.end(), has))
    self.refusal = malformed(whose + "that is no site of this job");
  if (!self.refusal) return 1;
  X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
  return 0;
}

std::unique_ptr<Session> make_session(std::shared_ptr<const SessionContext> context,
                                      std::string expected, bool dials) {
  auto impl = std::make_unique<Session::Impl>();
  impl->ssl.reset(SSL_new(context->ssl.get()));
  BIO* const bio = BIO_new(bio_method());
  if (!impl->ssl || bio == nullptr) {
    BIO_free(bio);
    return nullptr;
  }
  BIO_set_data(bio, impl.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(impl->ssl.get(), bio, bio);
  SSL_set_app_data(impl->ssl.get(), impl.get());
  dials ? SSL_set_connect_state(impl->ssl.get()) : SSL_set_accept_state(impl->ssl.get());
  impl->context = std::move(context);
  impl->expected = std::move(expected);
  impl->dialled = dials;
  return std::make_unique<Session>(std::move(impl));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

bool Session::has_dialled() const { return impl_->dialled; }

void Session::receive(std::span<const std::byte> bytes) {
  LH_CHECK(impl_->incoming.empty());
  impl_->incoming = bytes;
}

bool Session::wants_bytes() const { return impl_->incoming.empty(); }
bool Session::is_established() const { return SSL_is_init_finished(impl_->ssl.get()) == 1; }

Result<bool> Session::handshake() {
  Impl& self = *impl_;
  if (!self.has_begun && !self.incoming.empty()) {
    const std::byte first = self.incoming.front();
    if (first != kHandshakeRecord && (first != kAlertRecord || !self.dialled))
      return malformed(
          "it does not speak TLS: another program has this port, or a site was started with "
          "--insecure");
    self.has_begun = true;
  }
  ERR_clear_error();
  const int result = SSL_do_handshake(self.ssl.get());
  if (result == 1) {
    const openssl::Certificate shown(SSL_get1_peer_certificate(self.ssl.get()));
    LH_CHECK(shown && SSL_get_verify_result(self.ssl.get()) == X509_V_OK);
    self.peer_sites = sites_of(shown.get());
    return true;
  }
  if (SSL_get_error(self.ssl.get(), result) == SSL_ERROR_WANT_READ) return false;
  return self.failure(result);
}

Result<std::size_t> Session::read(std::span<std::byte> into) {
  std::size_t total = 0;
  while (!into.empty()) {
    ERR_clear_error();
    std::size_t count = 0;
    const int result = SSL_read_ex(impl_->ssl.get(), into.data(), into.size(), &count);
    if (result != 1) {
      // Bytes before the end are delivered; the next read finds the end again.
      if (total > 0 || SSL_get_error(impl_->ssl.get(), result) == SSL_ERROR_WANT_READ) break;
      return impl_->failure(result);
    }
    total += count;
    into = into.subspan(count);
  }
  return total;
}

Status Session::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return Ok{};
  ERR_clear_error();
  std::size_t count = 0;
  const int result = SSL_write_ex(impl_->ssl.get(), bytes.data(), bytes.size(), &count);
  if (result != 1) return impl_->failure(result);
  LH_CHECK(count == bytes.size());
  return Ok{};
}

Buffer& Session::outgoing() { return impl_->outgoing; }
const std::vector<std::string>& Session::peer_sites() const { return impl_->peer_sites; }

bool Session::peer_is(std::string_view site) const {
  return std::find(impl_->peer_sites.begin(), impl_->peer_sites.end(), site) !=
         impl_->peer_sites.end();
}

Buffer no_room_alert() {
  constexpr std::uint8_t kFatal = 2;
  const std::array<std::uint8_t, 7> record = {std::uint8_t(kAlertRecord), 3, 3, 0, 2, kFatal,
                                              SSL_AD_INTERNAL_ERROR};
  const auto bytes = std::as_bytes(std::span(record));
  return {bytes.begin(), bytes.end()};
}

Buffer Session::export_secret(std::string_view label, std::size_t size) const {
  LH_CHECK(is_established());
  Buffer secret(size);
  LH_CHECK(SSL_export_keying_material(impl_->ssl.get(),
                                      reinterpret_cast<unsigned char*>(secret.data()), size,
                                      label.data(), label.size(), nullptr, 0, 0) == 1);
  return secret;
}

}  // namespace longhaul::secure
