// ternary: -1, 0 or +1 times the largest magnitude of a block (Wen et al., "TernGrad: ternary
// gradients to reduce communication in distributed deep learning", NeurIPS 2017, section 3.1).
// Blocks of `block` values from the start of the range. Each block is written as m = max |x| (fp32)
// and a trit t per value: the sign of x with probability |x| / m, else 0. Decoded: m t. Unbiased;
// E |x - q|^2 = sum |x| (m - |x|). Five trits make a byte, the first the lowest (our choice), and
// blocks replace layers. The paper's clipping, which makes it biased, is left out.
// Random numbers are those of draws.h.
#include <algorithm>
#include <array>

#include "longhaul/codec/entry.h"
#include "longhaul/codec/norms.h"
#include "longhaul/codec/stochastic.h"

namespace longhaul::codec {
namespace {

constexpr std::size_t kTrits = 5;     // in a byte: 3^5 = 243
constexpr unsigned kMiddle = 121;     // five zeros: 1 + 3 + 9 + 27 + 81
constexpr unsigned kTritBytes = 243;  // bytes that are five trits

std::size_t trit_bytes(std::size_t length) {
  return length / kTrits + (length % kTrits != 0 ? 1 : 0);
}

// Trits -1, 0, 1 are digits 0, 1, 2.
void pack_trits(std::span<const std::int8_t> trits, std::byte* out) {
  constexpr std::array<int, kTrits> kDigits = {1, 3, 9, 27, 81};
  for (std::size_t i = 0; i < trits.size(); i += kTrits) {
    int byte = int(kMiddle);
    for (std::size_t k = 0; k < std::min(kTrits, trits.size() - i); ++k)
      byte += trits[i + k] * kDigits[k];
    out[i / kTrits] = std::byte(byte);
  }
}

using TritTable = std::array<std::array<float, kTrits>, 256>;

const TritTable& trit_table() {
  static const TritTable table = [] {
    TritTable made{};
    for (unsigned byte = 0; byte < kTritBytes; ++byte)
      for (unsigned k = 0, rest = byte; k < kTrits; ++k, rest /= 3)
        made[byte][k] = float(int(rest % 3) - 1);
    return made;
  }();
  return table;
}

// Trits behind the last value are 0.
bool fills_trits(std::byte last, std::size_t count) {
  for (std::size_t k = count % kTrits; k > 0 && k < kTrits; ++k)
    if (trit_table()[unsigned(last)][k] != 0) return false;
  return true;
}

class Ternary final : public StochasticCodec {
 public:
  struct Config {
    std::uint32_t block = 1000;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(block, "values that share a scale; a multiple of 5", .min = 5, .max = 1 << 20);
    }
  };
  static Status check(const Config& config, const Settings& settings) {
    if (config.block % kTrits == 0) return Ok{};
    return bad_setting(settings, *settings.find("block"), "a multiple of 5");
  }

  Ternary(const Config& config, const CodecSetting& where)
      : StochasticCodec("ternary", config.block, 1, where.place.seed) {}

 private:
  float norm_of_block(std::span<const float> block) const override {
    return largest_magnitude_of(block);
  }
  std::size_t packed_bytes(std::size_t count) const override { return trit_bytes(count); }
  void pack(std::span<const std::int8_t> trits, std::byte* out) const override {
    pack_trits(trits, out);
  }

  std::string_view read_block(Cursor& in, std::span<float> block) const override {
    const float scale = *in.number<float>();
    const auto bytes = *in.take(trit_bytes(block.size()));
    if (!is_scale(scale)) return "opens a block whose scale is not of this codec";
    const auto most = std::ranges::max_element(bytes);
    if (unsigned(*most) >= kTritBytes || !fills_trits(bytes.back(), block.size()))
      return "opens a block with a byte that is no trits";
    const TritTable& table = trit_table();
    for (std::size_t i = 0; i < block.size(); ++i)
      block[i] = table[unsigned(bytes[i / kTrits])][i % kTrits] * scale;
    return "";
  }
};

}  // namespace

CodecEntry ternary() {
  return codec_entry<Ternary, ternary>(
      {.name = "ternary",
       .summary = "unbiased -1, 0 or 1 times a block's largest magnitude, five to a byte",
       .traits = {.algebra = Algebra::gather, .contraction = false, .close = false},
       .cost = {
           .bytes = "ceil(d/5) + 4 ceil(d/1000)",
           .error = "unbiased; variance abs(x) (m - abs(x)), m the largest of a block of 1000"}});
}

}  // namespace longhaul::codec
