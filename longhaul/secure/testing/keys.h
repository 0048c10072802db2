#pragma once
// Keys for tests.
#include <ctime>
#include <string>
#include <vector>

#include "longhaul/secure/credentials.h"

namespace longhaul::secure {

inline Validity valid_today() {
  static const std::int64_t now = std::time(nullptr);  // one in a test, whatever the clock does
  return {now - 3600, now + 30 * 86400};
}

inline KeyPair test_authority() {
  auto made = make_authority(valid_today());
  LH_CHECK(made);
  return *std::move(made);
}

inline KeyPair test_keys(const KeyPair& authority, const std::string& site,
                         Validity valid = valid_today()) {
  auto made = issue(authority, site, valid);
  LH_CHECK(made);
  return *std::move(made);
}

inline std::unique_ptr<Credentials> test_credentials(const KeyPair& authority,
                                                     const std::string& site,
                                                     std::vector<std::string> sites) {
  auto made =
      Credentials::make(test_keys(authority, site), authority.certificate, site, std::move(sites));
  LH_CHECK(made);
  return *std::move(made);
}

}  // namespace longhaul::secure
