#pragma once
// Certificates of a job's sites and of the authority (CA) that issues them, as PEM text: X.509
// version 3, ECDSA over P-256 with SHA-256. A site's certificate names the site as a DNS entry of
// subjectAltName (RFC 5280, 4.2.1.6); names are compared byte by byte, without wildcards.
//
// Functions without state; any thread.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::secure {

// Seconds since 1970, UTC; both ends included.
struct Validity {
  std::int64_t from = 0, until = 0;
};

struct KeyPair {
  std::string certificate;  // public
  std::string key;          // private
};

// A new authority that can issue for sites and for nothing below them.
Result<KeyPair> make_authority(Validity);
// A new key for a site, and its certificate. Error: the name is none of a site, or the authority is
// unusable.
Result<KeyPair> issue(const KeyPair& authority, const std::string& site, Validity);

struct CertificateFacts {
  std::vector<std::string> sites;  // the DNS entries
  std::string issuer;              // "CN=longhaul CA 1f2e3d4c"
  std::string serial;              // hexadecimal
  std::string fingerprint;         // SHA-256, hexadecimal
  Validity valid;
  bool is_authority = false;
};
// Of the first certificate in the text.
Result<CertificateFacts> facts_of(const std::string& pem);
// Error: the certificate is not of this authority, or the key not of this certificate.
Status check_match(const KeyPair&, const std::string& authority);

// "2026-11-24 22:51 UTC".
std::string time_text(std::int64_t);

}  // namespace longhaul::secure
