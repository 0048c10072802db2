#pragma once
// Keys as other tools make them, for tests: with certificates between, and for other purposes.
#include "longhaul/secure/openssl.h"
#include "longhaul/secure/testing/keys.h"

namespace longhaul::secure {

inline KeyPair test_certificate(const CertificateSpec& spec, const KeyPair* authority) {
  auto made = make_certificate(spec, authority);
  LH_CHECK(made);
  return *std::move(made);
}

// An authority that may have others below it.
inline KeyPair test_root(const std::string& name) {
  return test_certificate({.name = name,
                           .valid = valid_today(),
                           .constraints = "critical,CA:TRUE",
                           .key_usage = "critical,keyCertSign"},
                          nullptr);
}

inline KeyPair test_between(const KeyPair& root, Validity valid = valid_today()) {
  return test_certificate({.name = "between",
                           .valid = valid,
                           .constraints = "critical,CA:TRUE,pathlen:0",
                           .key_usage = "critical,keyCertSign"},
                          &root);
}

inline KeyPair test_keys_for(const KeyPair& authority, const std::string& site,
                             const std::string& purposes,
                             const std::string& key_usage = "digitalSignature") {
  return test_certificate({.name = site,
                           .valid = valid_today(),
                           .constraints = "CA:FALSE",
                           .key_usage = key_usage,
                           .purposes = purposes,
                           .site = site},
                          &authority);
}

// As SITE.pem has them: the site's certificate, then the one between.
inline KeyPair behind(KeyPair site, const KeyPair& between) {
  site.certificate += between.certificate;
  return site;
}

}  // namespace longhaul::secure
