#pragma once
// A codec that keeps the upper half of a float, and CHECKs how it is used: the same bytes for the
// same stretch until the key is settled, and settled once. What it writes moves with every vector
// delivered, as error feedback does.
#include <map>
#include <set>

#include "longhaul/core/codec.h"

namespace longhaul::overlay::testing {

class Coarse final : public Codec {
 public:
  explicit Coarse(bool feedback) : feedback_(feedback) {}
  std::size_t encoded_size(std::size_t length) const override { return 2 * length; }
  Buffer encode(const CodecKey&, Range at, std::span<const float> values) override;
  Status decode(const CodecKey&, Range at, std::span<const std::byte>,
                std::span<float> out) const override;
  void settle(const CodecKey&, Fate) override;
  void state(Archive& ar) override { ar(delivered_, open_, settled_); }

 private:
  const bool feedback_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> delivered_;
  std::map<CodecKey, std::map<std::pair<std::uint64_t, std::uint64_t>, Buffer>> open_;
  std::set<CodecKey> settled_;
};

}  // namespace longhaul::overlay::testing
