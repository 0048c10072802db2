#include "longhaul/secure/certificates.h"

#include <array>
#include <ctime>

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include "longhaul/secure/openssl.h"
#include "longhaul/secure/x509.h"

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
  if (text.size() > 80) text = text.substr(0, 80) + "...";
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

openssl::Certificate read_certificate(const std::string& pem) {
  const openssl::Bio bio = bio_of(pem);
  return openssl::Certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
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

Result<KeyPair> make_authority(Validity valid) {
  const openssl::Key key(EVP_EC_gen("P-256"));
  const openssl::Certificate made = key ? begin_certificate(key.get(), valid) : nullptr;
  if (!made) return failed("making a certificate");
  X509* const x = made.get();
  // Two authorities of one name would make each other's certificates look damaged.
  const bool good = set_name(X509_get_subject_name(x), "longhaul CA " + random_hex(4)) &&
                    X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
                    add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
                    add_extension(x, x, NID_subject_key_identifier, "hash") &&
                    X509_sign(x, key.get(), EVP_sha256()) > 0;
  if (!good) return failed("making a certificate");
  return to_pem(x, key.get());
}

Result<KeyPair> issue(const KeyPair& authority, const std::string& site, Validity valid) {
  LH_TRY(check_site_name(site));
  const openssl::Certificate issuer = read_certificate(authority.certificate);
  const openssl::Key signer = read_key(authority.key);
  if (!issuer || !signer) return malformed("no certificate and key of an authority");
  if (X509_check_private_key(issuer.get(), signer.get()) != 1)
    return malformed("the authority's key does not belong to its certificate");
  if (const Validity of_issuer = validity_of(issuer.get()); valid.until > of_issuer.until)
    return invalid(fmt::format(
        "a certificate until {} would outlive its authority, which is valid until {}: ask for "
        "fewer days, or make a new authority",
        time_text(valid.until), time_text(of_issuer.until)));
  const openssl::Key key(EVP_EC_gen("P-256"));
  const openssl::Certificate made = key ? begin_certificate(key.get(), valid) : nullptr;
  if (!made) return failed("making a certificate");
  X509* const x = made.get();
  const bool good = set_name(X509_get_subject_name(x), site) &&
                    X509_set_issuer_name(x, X509_get_subject_name(issuer.get())) == 1 &&
                    add_extension(x, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") &&
                    add_extension(x, issuer.get(), NID_key_usage, "critical,digitalSignature") &&
                    add_extension(x, issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth") &&
                    add_extension(x, issuer.get(), NID_subject_key_identifier, "hash") &&
                    add_extension(x, issuer.get(), NID_authority_key_identifier, "keyid") &&
                    add_site(x, site) && X509_sign(x, signer.get(), EVP_sha256()) > 0;
  if (!good) return failed("making a certificate");
  return to_pem(x, key.get());
}

Result<CertificateFacts> facts_of(const std::string& pem) {
  const openssl::Certificate certificate = read_certificate(pem);
  if (!certificate) {
    ERR_clear_error();
    return malformed("holds no certificate in PEM");
  }
  const X509* const x = certificate.get();
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
  facts.is_authority = X509_check_ca(certificate.get()) == 1;
  return facts;
}

Status check_match(const KeyPair& pair, const std::string& authority) {
  const openssl::Certificate own = read_certificate(pair.certificate);
  const openssl::Certificate issuer = read_certificate(authority);
  const openssl::Key key = read_key(pair.key);
  Status result = Ok{};
  if (!own)
    result = malformed("holds no certificate in PEM");
  else if (!key)
    result = malformed("holds no private key in PEM without a passphrase");
  else if (!issuer)
    result = malformed("the authority's file holds no certificate in PEM");
  else if (X509_check_private_key(own.get(), key.get()) != 1)
    result = malformed("its key does not belong to its certificate");
  else if (X509_verify(own.get(), X509_get0_pubkey(issuer.get())) != 1)
    result = malformed(
        fmt::format("its certificate is not of this authority, but of {}", issuer_of(own.get())));
  ERR_clear_error();
  return result;
}

std::string time_text(std::int64_t at) {
  const std::time_t time = at;
  std::tm broken{};
  std::array<char, 32> text{};
  if (gmtime_r(&time, &broken) == nullptr) return "an unknown time";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &broken)};
}

}  // namespace longhaul::secure
