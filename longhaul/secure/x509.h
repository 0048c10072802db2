#pragma once
// Reading X.509 certificates. For the sources of this folder alone.
#include <string>
#include <vector>

#include "longhaul/secure/certificates.h"
#include "longhaul/secure/openssl.h"

namespace longhaul::secure {

openssl::Certificate read_certificate(const std::string& pem);  // null: none is there
std::vector<std::string> sites_of(const X509*);                 // its DNS entries
Validity validity_of(const X509*);
std::string issuer_of(const X509*);
// At most 80 characters; what is not printable ASCII becomes '?'. For names that a peer wrote.
std::string printable(std::string);

}  // namespace longhaul::secure
