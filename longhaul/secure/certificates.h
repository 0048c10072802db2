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
  std::string certificate;  // public; behind it those between it and the authority, if any
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
// The facts of each certificate in the text, at least one.
Result<std::vector<CertificateFacts>> facts_of(const std::string& pem);
// When the certificate, its authority's and those between are all valid. Error: no chain leads to
// an authority in the text, the chain is not for TLS at both ends, or the key is not of the
// certificate.
Result<Validity> check_match(const KeyPair&, const std::string& authorities);

// "2026-11-24 22:51 UTC".
std::string time_text(std::int64_t);

}  // namespace longhaul::secure
