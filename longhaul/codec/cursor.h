#pragma once
// Bytes that came, taken from the front; and numbers put behind what is written already.
#include <cstring>
#include <optional>
#include <span>

#include "longhaul/base/bytes.h"

namespace longhaul::codec {

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::span<const std::byte> rest() const { return rest_; }
  // The next `count` bytes; nothing if there are fewer.
  std::optional<std::span<const std::byte>> take(std::size_t count) {
    if (count > rest_.size()) return std::nullopt;
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  template <class T>
  std::optional<T> number() {
    const auto bytes = take(sizeof(T));
    if (!bytes) return std::nullopt;
    T value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> rest_;
};

template <class T>
void put(Buffer& out, T value) {
  const std::size_t size = out.size();
  out.resize(size + sizeof value);
  std::memcpy(&out[size], &value, sizeof value);
}

}  // namespace longhaul::codec
