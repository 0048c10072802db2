// fp32: the unchanged values, little endian, 4 bytes each. Lossless.
#include <bit>
#include <cstring>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/entry.h"

namespace longhaul::codec {
namespace {

class Fp32 final : public Codec {
 public:
  std::size_t encoded_size(std::size_t length) const override { return 4 * length; }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    const auto bytes = std::as_bytes(values);
    return Buffer(bytes.begin(), bytes.end());
  }

  Status decode(const CodecKey&, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    LH_TRY(expect_size("fp32", at, in.size(), encoded_size(out.size())));
    if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
    return expect_finite("fp32", at, out);
  }
};

}  // namespace

static_assert(std::endian::native == std::endian::little, "codecs copy numbers unchanged");

CodecEntry fp32() {
  return codec_entry<Fp32, fp32>({.name = "fp32",
                                  .summary = "the unchanged values, 4 bytes each",
                                  .traits = {.algebra = Algebra::add, .lossless = true},
                                  .cost = {.bytes = "4 d", .error = "none"}});
}

}  // namespace longhaul::codec
