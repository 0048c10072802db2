// sparse: fp32 of the nonzero values and a compact list of their places (indices.h); fp32 of all
// values if that is shorter. Lossless. For models whose updates are sparse by themselves. The means
// of sparse codecs are also written with it.
#include <bit>

#include "longhaul/codec/entry.h"
#include "longhaul/codec/sparse_list.h"

namespace longhaul::codec {
namespace {

enum class SparseForm : std::uint8_t { all = 0, list = 1 };

class Sparse final : public Codec {
 public:
  std::size_t encoded_size(std::size_t length) const override { return 1 + 4 * length; }
  // A negative 0 is written: nothing is lost.
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override {
    LH_CHECK(values.size() == at.length && all_finite(values));
    std::vector<std::uint32_t> indices;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::bit_cast<std::uint32_t>(values[i]) != 0) indices.push_back(std::uint32_t(i));
    Buffer bytes;
    // A list takes 5 bytes and one for each index at least.
    if (5 + 5 * indices.size() < 4 * values.size()) {
      put(bytes, SparseForm::list);
      write_list(indices, values.size(), bytes);
      write_values(indices, values, bytes);
      if (bytes.size() <= 1 + 4 * values.size()) return bytes;
      bytes.clear();
    }
    put(bytes, SparseForm::all);
    const auto all = std::as_bytes(values);
    bytes.insert(bytes.end(), all.begin(), all.end());
    return bytes;
  }

  Status decode(const CodecKey&, Range at, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(out.size() == at.length);
    Cursor cursor(in);
    const auto form = cursor.number<std::uint8_t>();
    if (form == std::uint8_t(SparseForm::list))
      return read_values("sparse", at, at.length, cursor, out);
    if (form != std::uint8_t(SparseForm::all)) return malformed("sparse: bytes in no known form");
    LH_TRY(expect_size("sparse", at, cursor.rest().size(), 4 * out.size()));
    if (!out.empty()) std::memcpy(out.data(), cursor.rest().data(), 4 * out.size());
    return expect_finite("sparse", at, out);
  }
};

}  // namespace

CodecEntry sparse() {
  return codec_entry<Sparse, sparse>(
      {.name = "sparse",
       .summary = "fp32 of the values that are not 0, with a compact list of their places",
       .traits = {.algebra = Algebra::add, .lossless = true},
       .cost = {.bytes = "1 + the shorter of 4 d and, of k that are not 0, 4 k + 5 + a list of k",
                .error = "none"}});
}

}  // namespace longhaul::codec
