#pragma once
// Bytes are immutable once made and shared by count: the simulator delivers a message without
// copying it, and a fan-out to n peers holds one buffer.
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "longhaul/base/check.h"

namespace longhaul {

using Buffer = std::vector<std::byte>;
using Bytes = std::shared_ptr<const Buffer>;

inline Bytes share(Buffer buffer) { return std::make_shared<const Buffer>(std::move(buffer)); }

// A Payload is a slice of shared Bytes. A *phantom* payload has a size but no bytes: it stands for
// a vector in timing studies, takes the same time on every link and cannot be read.
class Payload {
 public:
  Payload() = default;
  explicit Payload(Bytes bytes) : bytes_(std::move(bytes)), size_(bytes_ ? bytes_->size() : 0) {}
  Payload(Bytes bytes, std::size_t offset, std::size_t size)
      : bytes_(std::move(bytes)), offset_(offset), size_(size) {
    LH_CHECK(bytes_ && offset_ <= bytes_->size() && size_ <= bytes_->size() - offset_);
  }
  static Payload phantom(std::size_t size) {
    Payload payload;
    payload.size_ = size;
    return payload;
  }

  std::size_t size() const { return size_; }
  // A stretch of it, which shares the bytes.
  Payload slice(std::size_t offset, std::size_t size) const {
    LH_CHECK(offset <= size_ && size <= size_ - offset);
    if (size == 0) return {};
    return is_phantom() ? phantom(size) : Payload(bytes_, offset_ + offset, size);
  }
  bool is_phantom() const { return size_ > 0 && !bytes_; }
  std::span<const std::byte> view() const {
    LH_CHECK(!is_phantom());
    return size_ == 0 ? std::span<const std::byte>{} : std::span(*bytes_).subspan(offset_, size_);
  }

 private:
  Bytes bytes_;
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
};

}  // namespace longhaul
