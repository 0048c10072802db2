#include "longhaul/net/buffer_pool.h"

#include <utility>

namespace longhaul::net {

Buffer BufferPool::take(std::size_t size) {
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      buffer = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  buffer.resize(size);
  return buffer;
}

Bytes BufferPool::share(Buffer buffer) {
  auto owned = std::make_unique<Buffer>(std::move(buffer));
  return {owned.release(), [home = weak_from_this()](const Buffer* used) {
            const std::unique_ptr<Buffer> buffer(const_cast<Buffer*>(used));  // it was made so
            if (const auto pool = home.lock()) pool->put(std::move(*buffer));
          }};
}

void BufferPool::put(Buffer&& buffer) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < most_) idle_.push_back(std::move(buffer));
}

}  // namespace longhaul::net
