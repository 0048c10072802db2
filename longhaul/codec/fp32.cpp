#include "longhaul/codec/fp32.h"

#include <bit>
#include <cstring>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"

namespace longhaul::codec {

static_assert(std::endian::native == std::endian::little, "codecs copy numbers as they stand");

CodecEntry Fp32::entry() {
  return codec_entry<Fp32>({.name = "fp32",
                            .summary = "the values as they stand, 4 bytes each",
                            .traits = {.algebra = Algebra::add, .lossless = true},
                            .cost = {.bytes = "4 d", .error = "none"}});
}

Buffer Fp32::encode(const CodecKey&, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  const auto bytes = std::as_bytes(values);
  return Buffer(bytes.begin(), bytes.end());
}

Status Fp32::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                    std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("fp32", at, in.size(), encoded_size(out.size())));
  if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
  return expect_finite("fp32", at, out);
}

}  // namespace longhaul::codec
