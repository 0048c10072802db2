#include "longhaul/codec/ternary.h"

#include <algorithm>
#include <array>

#include "longhaul/codec/bytes_check.h"
#include "longhaul/codec/cursor.h"
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

}  // namespace

CodecEntry Ternary::entry() {
  return codec_entry<Ternary>(
      {.name = "ternary",
       .summary = "unbiased -1, 0 or 1 times a block's largest magnitude, five to a byte",
       .traits = {.algebra = Algebra::gather, .contraction = false, .close = false},
       .cost = {
           .bytes = "ceil(d/5) + 4 ceil(d/1000)",
           .error = "unbiased; variance abs(x) (m - abs(x)), m the largest of a block of 1000"}});
}

Status Ternary::check(const Config& config, const Settings& settings) {
  if (config.block % kTrits == 0) return Ok{};
  return bad_setting(settings, *settings.find("block"), "a multiple of 5");
}

Ternary::Ternary(const Config& config, const CodecSetting& where)
    : seed_(where.place.seed), block_(config.block) {}

std::size_t Ternary::encoded_size(std::size_t length) const {
  return trit_bytes(length) + 4 * (length / block_ + (length % block_ != 0 ? 1 : 0));
}

Buffer Ternary::encode(const CodecKey& key, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length && all_finite(values));
  const Draws draws(seed_, key);
  std::vector<std::uint32_t> drawn(std::min(block_, values.size()));
  std::vector<std::int8_t> trits(drawn.size());
  Buffer bytes;
  bytes.reserve(encoded_size(values.size()));
  for (std::size_t done = 0; done < values.size(); done += block_) {
    const auto block = values.subspan(done, std::min(block_, values.size() - done));
    drawn.resize(block.size());
    trits.resize(block.size());
    draws.fill(at.offset + done, drawn);
    const float scale = largest_magnitude_of(block);
    round_stochastically(block, scale, 1, drawn, trits);
    put(bytes, scale);
    const std::size_t begin = bytes.size();
    bytes.resize(begin + trit_bytes(block.size()));
    pack_trits(trits, &bytes[begin]);
  }
  return bytes;
}

Status Ternary::decode(const CodecKey&, Range at, std::span<const std::byte> in,
                       std::span<float> out) const {
  LH_CHECK(out.size() == at.length);
  LH_TRY(expect_size("ternary", at, in.size(), encoded_size(out.size())));
  const TritTable& table = trit_table();
  Cursor cursor(in);
  for (std::size_t done = 0; done < out.size(); done += block_) {
    const auto block = out.subspan(done, std::min(block_, out.size() - done));
    const float scale = *cursor.number<float>();
    const auto bytes = *cursor.take(trit_bytes(block.size()));
    if (!(scale >= 0 && scale <= FLT_MAX))
      return bad_value("ternary", at.offset + done,
                       "opens a block whose scale is not of this codec");
    const auto most = std::max_element(bytes.begin(), bytes.end());
    if (unsigned(*most) >= kTritBytes || !fills_trits(bytes.back(), block.size()))
      return bad_value("ternary", at.offset + done, "opens a block with a byte that is no trits");
    for (std::size_t i = 0; i < block.size(); ++i)
      block[i] = table[unsigned(bytes[i / kTrits])][i % kTrits] * scale;
  }
  return Ok{};
}

}  // namespace longhaul::codec
