// Bytes from a stranger, in pieces, at either end of a TLS handshake.
#include <cstdint>
#include <ctime>

#include "longhaul/base/check.h"
#include "longhaul/secure/credentials.h"

namespace longhaul::secure {
namespace {

std::unique_ptr<Credentials> made_credentials() {
  const Validity valid{std::time(nullptr) - 3600, std::time(nullptr) + 10 * 86400};
  const auto authority = make_authority(valid);
  LH_CHECK(authority);
  const auto keys = issue(*authority, "lima", valid);
  LH_CHECK(keys);
  auto made = Credentials::make(*keys, authority->certificate, "lima", {"lima", "tokyo"});
  LH_CHECK(made);
  return *std::move(made);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto credentials = made_credentials();
  if (size < 2) return 0;
  const auto session = data[0] % 2 == 0 ? credentials->accept() : credentials->dial("tokyo");
  const std::size_t piece = data[1] + 1u;
  LH_CHECK(session);
  (void)session->handshake();
  auto rest = std::as_bytes(std::span(data, size)).subspan(2);
  while (!rest.empty()) {
    const auto now = rest.first(std::min(piece, rest.size()));
    rest = rest.subspan(now.size());
    session->receive(now);
    const auto done = session->handshake();
    // No handshake ends without a key, and answers stay short.
    if (!done) return 0;
    LH_CHECK(!*done && !session->is_established() && session->peer_sites().empty());
    LH_CHECK(session->outgoing().size() < 16 * 1024);
    if (!session->wants_bytes()) return 0;
  }
  return 0;
}

}  // namespace longhaul::secure
