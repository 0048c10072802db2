// Any bytes, read as any message struct, are a value or an error; a value written and read again is
// the same bytes. The first byte picks the struct.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/message_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  unsigned index = 0;
  for_each_message([&]<class M>(std::string_view) {
    if (index++ != data[0] % 64u) return;
    auto message = from_wire<M>(bytes);
    if (!message) return;
    const Buffer again = to_wire(*message);
    LH_CHECK(again.size() == bytes.size());
    LH_CHECK(bytes.empty() || std::memcmp(again.data(), bytes.data(), bytes.size()) == 0);
  });
  return 0;
}
