#pragma once
// A codec that keeps the upper half of a float, and CHECKs how it is used: the same bytes for the
// same stretch until the key is settled, and settled once. What it writes moves with every vector
// delivered, as error feedback does.
#include <bit>
#include <cstring>
#include <map>
#include <set>

#include "longhaul/core/codec.h"

namespace longhaul::overlay::testing {

class Coarse final : public Codec {
 public:
  explicit Coarse(bool feedback) : feedback_(feedback) {}
  std::size_t encoded_size(std::size_t length) const override { return 2 * length; }
  Buffer encode(const CodecKey& key, Range at, std::span<const float> values) override {
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

  Status decode(const CodecKey&, Range at, std::span<const std::byte> bytes,
                std::span<float> out) const override {
    if (bytes.size() != encoded_size(at.length)) return malformed("coarse: wrong length");
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, &bytes[2 * i], 2);
      out[i] = std::bit_cast<float>(std::uint32_t(half) << 16);
    }
    return all_finite(out) ? Status(Ok{}) : malformed("coarse: not finite");
  }

  void settle(const CodecKey& key, Fate fate) override {
    LH_CHECK(feedback_ && settled_.insert(key).second);
    if (fate == Fate::delivered) ++delivered_[{key.group, key.range}];
    open_.erase(key);
  }

  void state(Archive& ar) override { ar(delivered_, open_, settled_); }

 private:
  const bool feedback_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> delivered_;
  std::map<CodecKey, std::map<std::pair<std::uint64_t, std::uint64_t>, Buffer>> open_;
  std::set<CodecKey> settled_;
};

}  // namespace longhaul::overlay::testing
