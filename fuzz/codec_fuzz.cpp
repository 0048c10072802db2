// decode() of arbitrary bytes, for every codec of the registry, plain and inside error feedback.
//
// Input: one byte that picks the codec (by its place in the registry), two that say how many values
// are expected (little endian, modulo 4096), one that says how the size is bent, then the bytes
// from the peer. Whatever they are, decode gives finite values or an Error that names the codec;
// what it accepts it also accepts when written anew, of codecs that are near their input with
// nearly the same numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "longhaul/codec/registry.h"

namespace longhaul::codec {
namespace {

const CodecEntry& entry_of_byte(std::size_t choice) {
  const auto entries = registry();
  return entries[choice / 2 % entries.size()];
}

std::unique_ptr<Codec> codec_of(std::size_t choice) {
  const CodecEntry& entry = entry_of_byte(choice);
  const bool feedback = choice % 2 == 1 && !refuses_feedback(entry);
  Settings settings{.table = "codec", .file = "fuzz", .line = 0, .entries = {}};
  settings.set({"kind", {std::string(entry.name)}, "fuzz", 0});
  settings.set({"error_feedback", {feedback}, "fuzz", 0});
  auto made = make_codec(settings, Place{}, true);
  LH_CHECK(made);
  return *std::move(made);
}

void decode_any(std::span<const std::uint8_t> input) {
  if (input.size() < 4) return;
  const auto codec = codec_of(input[0]);
  const std::size_t length = (std::size_t(input[1]) | std::size_t(input[2]) << 8) % 4096;
  const auto body = std::as_bytes(input.subspan(4));
  Buffer bytes(body.begin(), body.end());
  // Often the right size, or few inputs would get past the first test of codecs of fixed size.
  if (input[3] % 2 != 0) bytes.resize(codec->encoded_size(length));

  const Range at{1000, length};
  std::vector<float> values(length, 0.f);
  const Status status = codec->decode({}, at, bytes, values);
  if (!status) {
    LH_CHECK(status.error().kind == Error::Kind::malformed && !status.error().what.empty());
    return;
  }
  LH_CHECK(all_finite(values));
  std::vector<float> again(length, 0.f);
  LH_CHECK(codec->decode({}, at, codec->encode({}, at, values), again));
  LH_CHECK(all_finite(again));
  if (!entry_of_byte(input[0]).traits.close) return;
  for (std::size_t i = 0; i < length; i += 256) {  // no value moves by more than the largest / 254
    const std::size_t end = std::min(length, i + 256);
    double most = 0;
    for (std::size_t j = i; j < end; ++j) most = std::max(most, std::abs(double(values[j])));
    for (std::size_t j = i; j < end; ++j)
      LH_CHECK(std::abs(double(values[j]) - double(again[j])) <= most / 253 + 0x1p-149);
  }
}

}  // namespace
}  // namespace longhaul::codec

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  longhaul::codec::decode_any({data, size});
  return 0;
}
