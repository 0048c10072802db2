#pragma once
// fp32 as it stands. Sparse: what is 0 counts as not sent, also in the mean.
#include <cstring>

#include "longhaul/core/codec.h"

namespace longhaul::overlay::testing {

class Exact final : public Codec {
 public:
  explicit Exact(bool sparse = false) : sparse_(sparse) {}
  bool mean_of_senders() const override { return sparse_; }
  std::size_t encoded_size(std::size_t length) const override { return 4 * length; }
  Buffer encode(const CodecKey&, Range, std::span<const float> values) override {
    Buffer bytes(values.size_bytes());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  Status decode(const CodecKey&, Range, std::span<const std::byte> bytes,
                std::span<float> out) const override {
    if (bytes.size() != out.size_bytes()) return malformed("exact: wrong length");
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return all_finite(out) ? Status(Ok{}) : malformed("exact: not finite");
  }

 private:
  const bool sparse_;
};

}  // namespace longhaul::overlay::testing
