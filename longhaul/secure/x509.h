#pragma once
// Reading X.509 certificates. For the sources of this folder alone.
#include <string>
#include <vector>

#include "longhaul/secure/certificates.h"
#include "longhaul/secure/openssl.h"

namespace longhaul::secure {

// All of a text, at least one.
Result<std::vector<openssl::Certificate>> read_certificates(const std::string& pem);
std::vector<std::string> sites_of(const X509*);  // its DNS entries
Validity validity_of(const X509*);
std::string issuer_of(const X509*);
// Each certificate in ca.crt is trusted by itself, whether or not it is a root.
inline constexpr unsigned long kTrustFlags = X509_V_FLAG_PARTIAL_CHAIN;
// Why X509_verify_cert() does not take it: a text that follows "its certificate".
std::string reason_of(int error, const X509*);

// Contents of a certificate with a new key.
struct CertificateSpec {
  std::string name;
  Validity valid = {};
  std::string constraints = {}, key_usage = {}, purposes = {};  // as OpenSSL writes extensions
  std::string site = {};                                        // DNS entry
};
// `authority`: whose key signs; null: its own.
Result<KeyPair> make_certificate(const CertificateSpec&, const KeyPair* authority);
// At most 80 characters; what is not printable ASCII becomes '?'. For names that a peer wrote.
std::string printable(std::string);

}  // namespace longhaul::secure
