#include "longhaul/secure/certificates.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include "longhaul/secure/openssl.h"

namespace longhaul::secure {
namespace {

Error failed(const char* what) {
  return unavailable(fmt::format("OpenSSL: {}: {}", what, openssl::take_error()));
}

std::string bio_text(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return {bytes, std::size_t(std::max(size, 0l))};
}

openssl::Bio bio_of(const std::string& text) {
  return openssl::Bio(BIO_new_mem_buf(text.data(), int(text.size())));
}

openssl::Key read_key(const std::string& pem) {
  const openssl::Bio bio = bio_of(pem);
  // Without this an encrypted key would ask for a passphrase on the terminal.
  const auto none = [](char*, int, int, void*) { return 0; };
  return openssl::Key(PEM_read_bio_PrivateKey(bio.get(), nullptr, none, nullptr));
}

std::string random_hex(int bytes) {
  std::array<unsigned char, 16> drawn{};
  LH_CHECK(RAND_bytes(drawn.data(), bytes) == 1);
  std::string text;
  for (int i = 0; i < bytes; ++i) text += fmt::format("{:02x}", drawn[std::size_t(i)]);
  return text;
}

// Unpredictable and positive, as RFC 5280 asks.
bool set_serial(X509* certificate) {
  const openssl::Number number(BN_new());
  return number && BN_rand(number.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_name(X509_NAME* name, const std::string& common) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(common.data()),
                                    int(common.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const openssl::Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Built from its parts: in a text of them a name could hold a second entry.
bool add_site(X509* certificate, const std::string& site) {
  const openssl::Names names(GENERAL_NAMES_new());
  GENERAL_NAME* const name = GENERAL_NAME_new();
  ASN1_IA5STRING* const text = ASN1_IA5STRING_new();
  if (!names || !name || !text || ASN1_STRING_set(text, site.data(), int(site.size())) != 1)
    return false;
  GENERAL_NAME_set0_value(name, GEN_DNS, text);
  sk_GENERAL_NAME_push(names.get(), name);
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, 0) == 1;
}

Result<KeyPair> to_pem(X509* certificate, EVP_PKEY* key) {
  const openssl::Bio one(BIO_new(BIO_s_mem())), other(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(one.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(other.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failed("writing PEM");
  return KeyPair{bio_text(one.get()), bio_text(other.get())};
}

// A certificate for `key` with all but its name and extensions.
openssl::Certificate begin_certificate(EVP_PKEY* key, Validity valid) {
  openssl::Certificate certificate(X509_new());
  const bool good = certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                    set_serial(certificate.get()) &&
                    ASN1_TIME_set(X509_getm_notBefore(certificate.get()), valid.from) &&
                    ASN1_TIME_set(X509_getm_notAfter(certificate.get()), valid.until) &&
                    X509_set_pubkey(certificate.get(), key) == 1;
  return good ? std::move(certificate) : nullptr;
}

std::int64_t seconds_of(const ASN1_TIME* time) {
  std::tm broken{};
  return ASN1_TIME_to_tm(time, &broken) == 1 ? std::int64_t(timegm(&broken)) : 0;
}

Status check_site_name(const std::string& site) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  bool all = !site.empty() && site.size() <= 64;
  for (const char c : site) all = all && good(c);
  if (all) return Ok{};
  return invalid(
      fmt::format("\"{}\" is no name of a site: expected up to 64 letters, digits, - and _, as in "
                  "[[site]] name",
                  printable(site)));
}

}  // namespace

std::string openssl::take_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown error";
}

std::string printable(std::string text) {
  return ascii(text.size() > 80 ? text.substr(0, 80) + "..." : text);
}

Result<std::vector<openssl::Certificate>> read_certificates(const std::string& pem) {
  const openssl::Bio bio = bio_of(pem);
  std::vector<openssl::Certificate> all;
  ERR_clear_error();
  while (X509* const one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
    all.emplace_back(one);
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!is_end) return malformed(fmt::format("certificate {} in it is damaged", all.size() + 1));
  if (all.empty()) return malformed("holds no certificate in PEM");
  return all;
}

std::vector<std::string> sites_of(const X509* certificate) {
  const openssl::Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> sites;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    const ASN1_IA5STRING* const text = name->d.dNSName;
    sites.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       std::size_t(ASN1_STRING_length(text)));
  }
  return sites;
}

Validity validity_of(const X509* certificate) {
  return {seconds_of(X509_get0_notBefore(certificate)),
          seconds_of(X509_get0_notAfter(certificate))};
}

std::string issuer_of(const X509* certificate) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), X509_get_issuer_name(certificate), 0, XN_FLAG_RFC2253);
  return printable(bio_text(bio.get()));
}

Result<KeyPair> make_certificate(const CertificateSpec& spec, const KeyPair* authority) {
  const openssl::Key key(EVP_EC_gen("P-256"));
  const openssl::Certificate made = key ? begin_certificate(key.get(), spec.valid) : nullptr;
  if (!made) return failed("making a certificate");
  X509* const x = made.get();
  X509* issuer = x;
  EVP_PKEY* signer = key.get();
  openssl::Key of_authority;
  std::vector<openssl::Certificate> authorities;
  if (authority != nullptr) {
    auto read = read_certificates(authority->certificate);
    of_authority = read_key(authority->key);
    if (!read || !of_authority) return malformed("no certificate and key of an authority");
    authorities = *std::move(read);
    const auto own = std::ranges::find_if(authorities, [&](const auto& one) {
      return X509_check_private_key(one.get(), of_authority.get()) == 1;
    });
    ERR_clear_error();
    if (own == authorities.end())
      return malformed("the authority's key does not belong to its certificate");
    issuer = own->get();
    signer = of_authority.get();
    if (const Validity of_issuer = validity_of(issuer); spec.valid.until > of_issuer.until)
      return invalid(fmt::format(
          "a certificate until {} would outlive its authority, which is valid until {}: ask for "
          "fewer days, or make a new authority",
          time_text(spec.valid.until), time_text(of_issuer.until)));
  }
  const auto add = [&](int nid, const std::string& value) {
    return value.empty() || add_extension(x, issuer, nid, value.c_str());
  };
  const bool good =
      set_name(X509_get_subject_name(x), spec.name) &&
      X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1 &&
      add(NID_basic_constraints, spec.constraints) && add(NID_key_usage, spec.key_usage) &&
      add(NID_ext_key_usage, spec.purposes) && add(NID_subject_key_identifier, "hash") &&
      add(NID_authority_key_identifier, issuer == x ? "" : "keyid") &&
      (spec.site.empty() || add_site(x, spec.site)) && X509_sign(x, signer, EVP_sha256()) > 0;
  if (!good) return failed("making a certificate");
  return to_pem(x, key.get());
}

Result<KeyPair> make_authority(Validity valid) {
  // Two authorities of one name would make each other's certificates look damaged.
  return make_certificate({.name = "longhaul CA " + random_hex(4),
                           .valid = valid,
                           .constraints = "critical,CA:TRUE,pathlen:0",
                           .key_usage = "critical,keyCertSign,cRLSign"},
                          nullptr);
}

Result<KeyPair> issue(const KeyPair& authority, const std::string& site, Validity valid) {
  LH_TRY(check_site_name(site));
  return make_certificate({.name = site,
                           .valid = valid,
                           .constraints = "critical,CA:FALSE",
                           .key_usage = "critical,digitalSignature",
                           .purposes = "serverAuth,clientAuth",
                           .site = site},
                          &authority);
}

namespace {

CertificateFacts facts_of_one(X509* x) {
  CertificateFacts facts;
  for (const std::string& site : sites_of(x)) facts.sites.push_back(printable(site));
  facts.issuer = issuer_of(x);
  const openssl::Number serial(ASN1_INTEGER_to_BN(X509_get0_serialNumber(x), nullptr));
  if (char* const hex = serial ? BN_bn2hex(serial.get()) : nullptr; hex != nullptr) {
    facts.serial = hex;
    OPENSSL_free(hex);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (X509_digest(x, EVP_sha256(), digest.data(), &size) == 1)
    for (unsigned i = 0; i < size; ++i) facts.fingerprint += fmt::format("{:02x}", digest[i]);
  facts.valid = validity_of(x);
  facts.is_authority = X509_check_ca(x) == 1;
  return facts;
}

// The result of checking a site's certificate for one purpose, as a peer checks it.
struct Checked {
  int error = X509_V_OK;
  Validity valid;
  std::string text;
};

Checked check_chain(const std::vector<openssl::Certificate>& own, X509_STORE* trusted, int purpose,
                    bool at_any_time) {
  const openssl::Stack behind(sk_X509_new_null());
  for (std::size_t i = 1; i < own.size(); ++i) sk_X509_push(behind.get(), own[i].get());
  const openssl::StoreContext context(X509_STORE_CTX_new());
  if (!context || X509_STORE_CTX_init(context.get(), trusted, own.front().get(), behind.get()) != 1)
    return {X509_V_ERR_OUT_OF_MEM, {}, "OpenSSL: " + openssl::take_error()};
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_VERIFY_PARAM* const param = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(param, kTrustFlags | (at_any_time ? X509_V_FLAG_NO_CHECK_TIME : 0));
  const openssl::Context tls(SSL_CTX_new(TLS_method()));
  if (tls) X509_VERIFY_PARAM_set_auth_level(param, SSL_CTX_get_security_level(tls.get()));
  Checked checked{X509_V_OK, {0, std::numeric_limits<std::int64_t>::max()}, ""};
  if (X509_verify_cert(context.get()) != 1) {
    const X509* const at = X509_STORE_CTX_get_current_cert(context.get());
    checked.error = X509_STORE_CTX_get_error(context.get());
    checked.text = reason_of(checked.error, at != nullptr ? at : own.front().get());
    return checked;
  }
  STACK_OF(X509)* const chain = X509_STORE_CTX_get0_chain(context.get());
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    const Validity one = validity_of(sk_X509_value(chain, i));
    checked.valid.from = std::max(checked.valid.from, one.from);
    checked.valid.until = std::min(checked.valid.until, one.until);
  }
  return checked;
}

}  // namespace

Result<std::vector<CertificateFacts>> facts_of(const std::string& pem) {
  LH_LET(certificates, read_certificates(pem));
  std::vector<CertificateFacts> all;
  for (const auto& one : certificates) all.push_back(facts_of_one(one.get()));
  return all;
}

std::string reason_of(int error, const X509* certificate) {
  const Validity valid = validity_of(certificate);
  const std::string clock =
      fmt::format("by the clock of this machine it is {}; if that is wrong, set the clock (NTP)",
                  time_text(std::time(nullptr)));
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("has expired on {}; renew it: longhaul keys issue ({})",
                         time_text(valid.until), clock);
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("is not valid before {}; {}", time_text(valid.from), clock);
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "is self-signed; issue one with the job's authority: longhaul keys issue";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:  // the peer has sent its authority's, too
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_AKID_SKID_MISMATCH:
      return fmt::format(
          "is of another authority ({}); all sites need certificates of the authorities in ca.crt, "
          "and behind its own a SITE.pem needs those between",
          issuer_of(certificate));
    case X509_V_ERR_INVALID_PURPOSE: {
      const std::uint32_t purposes = X509_get_extended_key_usage(const_cast<X509*>(certificate));
      return fmt::format(
          "is not for TLS at both ends ({}); a site dials and is dialled: issue it with the "
          "extended "
          "key usage serverAuth and clientAuth",
          (purposes & XKU_SSL_CLIENT) == 0   ? "it lacks clientAuth"
          : (purposes & XKU_SSL_SERVER) == 0 ? "it lacks serverAuth"
                                             : "by its key usage");
    }
    default:
      return fmt::format("is not accepted: {}", X509_verify_cert_error_string(error));
  }
}

Result<Validity> check_match(const KeyPair& pair, const std::string& authority) {
  LH_LET(own, read_certificates(pair.certificate));
  const auto authorities = read_certificates(authority);
  if (!authorities) return malformed("the authority's file " + authorities.error().what);
  const openssl::Key key = read_key(pair.key);
  const bool is_own = key && X509_check_private_key(own.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!key) return malformed("holds no private key in PEM without a passphrase");
  if (!is_own)
    return malformed(
        "its key does not belong to its first certificate; expected the key, the certificate of "
        "the site, and behind it those between that and the authority");
  const openssl::Store trusted(X509_STORE_new());
  for (const auto& one : *authorities)
    if (!trusted || X509_STORE_add_cert(trusted.get(), one.get()) != 1) return failed("ca.crt");
  Validity valid;
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    Checked checked = check_chain(own, trusted.get(), purpose, false);
    // A wrong time alone is no error here: `valid` says it.
    if (checked.error != X509_V_OK) checked = check_chain(own, trusted.get(), purpose, true);
    ERR_clear_error();
    if (checked.error != X509_V_OK) return malformed("its certificate " + checked.text);
    valid = checked.valid;
  }
  return valid;
}

std::string time_text(std::int64_t at) {
  const std::time_t time = at;
  std::tm broken{};
  std::array<char, 32> text{};
  if (gmtime_r(&time, &broken) == nullptr) return "an unknown time";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &broken)};
}

}  // namespace longhaul::secure
