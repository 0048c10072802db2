// Messages from a stranger to a doctor. The first byte says how the rest is read. 0: the head of a
// message; one that decodes must encode to the same bytes. Else: the body of a message of that
// kind, which must come out as it went in.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "longhaul/doctor/channel.h"

namespace longhaul::doctor {
namespace {

void head(std::span<const std::byte> bytes) {
  if (bytes.size() < kHead) return;
  const auto decoded = decode(bytes.first<kHead>());
  if (!decoded) return;
  LH_CHECK(decoded->size <= kMaxMessage && !name_of(decoded->kind).empty());
  const auto again = encode(*decoded);
  LH_CHECK(std::memcmp(again.data(), bytes.data(), kHead) == 0);
}

template <class T>
void body(std::span<const std::byte> bytes) {
  const auto message = from_wire<T>(bytes);
  if (!message) return;
  const Buffer again = to_wire(*message);
  LH_CHECK(again.size() == bytes.size());
  LH_CHECK(bytes.empty() || std::memcmp(again.data(), bytes.data(), bytes.size()) == 0);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  static constexpr void (*kReaders[])(std::span<const std::byte>) = {head,
                                                                     body<Hello>,
                                                                     body<Text>,
                                                                     body<MachineFacts>,
                                                                     body<Ping>,
                                                                     body<Pong>,
                                                                     body<DatagramCount>,
                                                                     body<PathInfo>,
                                                                     body<BulkResult>,
                                                                     body<MeasurementPlan>,
                                                                     body<ProbeRequest>,
                                                                     body<DirectionResult>,
                                                                     body<Empty>,
                                                                     body<Datagram>,
                                                                     body<PairResult>};
  kReaders[data[0] % std::size(kReaders)](bytes);
  return 0;
}

}  // namespace longhaul::doctor
