#include "longhaul/overlay/testing/coarse.h"

#include <bit>
#include <cstring>

namespace longhaul::overlay::testing {

Buffer Coarse::encode(const CodecKey& key, Range at, std::span<const float> values) {
  LH_CHECK(values.size() == at.length);
  const float drift = feedback_ ? 0.25f * float(delivered_[{key.group, key.range}]) : 0.f;
  Buffer bytes(encoded_size(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto half = std::uint16_t(std::bit_cast<std::uint32_t>(values[i] + drift) >> 16);
    std::memcpy(&bytes[2 * i], &half, 2);
  }
  if (!feedback_) return bytes;
  LH_CHECK(!settled_.contains(key));
  const auto [it, fresh] = open_[key].try_emplace({at.offset, at.length}, bytes);
  LH_CHECK(fresh || it->second == bytes);
  return bytes;
}

Status Coarse::decode(const CodecKey&, Range at, std::span<const std::byte> bytes,
                      std::span<float> out) const {
  if (bytes.size() != encoded_size(at.length)) return malformed("coarse: wrong length");
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, &bytes[2 * i], 2);
    out[i] = std::bit_cast<float>(std::uint32_t(half) << 16);
  }
  return all_finite(out) ? Status(Ok{}) : malformed("coarse: not finite");
}

void Coarse::settle(const CodecKey& key, Fate fate) {
  LH_CHECK(feedback_ && settled_.insert(key).second);
  if (fate == Fate::delivered) ++delivered_[{key.group, key.range}];
  open_.erase(key);
}

}  // namespace longhaul::overlay::testing
