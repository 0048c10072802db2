#include "longhaul/net/buffer_pool.h"

#include <algorithm>
#include <utility>

namespace longhaul::net {

// Memory of more than twice the size is not used: whoever keeps a small message, and counts its
// bytes, must not keep a large one's memory with it.
Buffer BufferPool::take(std::size_t size) {
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    const auto fit = std::find_if(idle_.begin(), idle_.end(), [size](const Buffer& idle) {
      return size <= idle.capacity() && idle.capacity() / 2 <= size;
    });
    if (fit != idle_.end()) {
      buffer = std::move(*fit);
      idle_.erase(fit);
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
  idle_.push_back(std::move(buffer));
  if (idle_.size() > most_) idle_.erase(idle_.begin());  // the oldest: sizes may have changed
}

}  // namespace longhaul::net
