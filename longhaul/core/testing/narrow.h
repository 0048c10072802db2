#pragma once
// A codec of a byte for a number, or none for zeros at the end: as many bytes as numbers at the
// most, and often fewer. It keeps what it was asked and told.
#include <vector>

#include "longhaul/core/codec.h"

namespace longhaul::testing {

class Narrow final : public Codec {
 public:
  std::size_t encoded_size(std::size_t length) const override { return length; }
  Buffer encode(const CodecKey& key, Range at, std::span<const float> values) override {
    asked.emplace_back(key, at);
    Buffer bytes;
    for (const float v : values) bytes.push_back(std::byte(std::uint8_t(v)));
    while (!bytes.empty() && bytes.back() == std::byte{0}) bytes.pop_back();
    return bytes;
  }
  Status decode(const CodecKey&, Range, std::span<const std::byte> in,
                std::span<float> out) const override {
    LH_CHECK(in.size() <= out.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = i < in.size() ? float(in[i]) : 0.f;
    return Ok{};
  }
  void settle(const CodecKey& key, Fate fate) override { fates.emplace_back(key, fate); }
  void state(Archive& ar) override { ar(kept); }

  std::vector<std::pair<CodecKey, Range>> asked;
  std::vector<std::pair<CodecKey, Fate>> fates;
  int kept = 0;  // whatever a codec has to keep
};

}  // namespace longhaul::testing
