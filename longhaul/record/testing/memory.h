#pragma once
// Recordings in memory.
#include <algorithm>
#include <cstring>

#include "longhaul/record/frame.h"

namespace longhaul::record::testing {

class MemorySink final : public Sink {
 public:
  Status write(std::span<const std::byte> more) override {
    if (bytes.size() + more.size() > room) return unavailable("the sink is full");
    bytes.insert(bytes.end(), more.begin(), more.end());
    return Ok{};
  }
  Buffer bytes;
  std::size_t room = std::size_t(-1);
};

// Gives at most `piece` bytes at a time, as files and pipes may.
class MemorySource final : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes, std::size_t piece = std::size_t(-1))
      : left_(bytes), piece_(piece) {}
  Result<std::size_t> read(std::span<std::byte> into) override {
    most_asked = std::max(most_asked, into.size());
    const std::size_t size = std::min({into.size(), left_.size(), piece_});
    if (size > 0) std::memcpy(into.data(), left_.data(), size);
    left_ = left_.subspan(size);
    return size;
  }
  std::size_t most_asked = 0;

 private:
  std::span<const std::byte> left_;
  std::size_t piece_;
};

}  // namespace longhaul::record::testing
