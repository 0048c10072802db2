// What a site's process can send through the router of an emulated WAN: any packet at all. What is
// taken for a bare acknowledgement is none when a byte is missing or one more comes behind it.
#include <cstdint>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/lab/router.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using longhaul::lab::is_bare_acknowledgement;
  const auto packet = std::as_bytes(std::span(data, size));
  if (!is_bare_acknowledgement(packet)) return 0;
  LH_CHECK(!is_bare_acknowledgement(packet.first(size - 1)));
  std::vector<std::byte> longer(packet.begin(), packet.end());
  longer.push_back(std::byte{0});
  LH_CHECK(!is_bare_acknowledgement(longer));
  return 0;
}
