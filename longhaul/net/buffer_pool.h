#pragma once
// Reuses read buffers: an unused buffer is kept and neither returned to the system nor set to zero
// again.
//
// Threads: take() on one; buffers may be released on any thread, also after the pool is destroyed.
// Memory: at most `most` unused buffers, none larger than any requested before.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "longhaul/base/bytes.h"

namespace longhaul::net {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static std::shared_ptr<BufferPool> make(std::size_t most) {
    return std::shared_ptr<BufferPool>(new BufferPool(most));
  }
  // Returns a buffer of that size with undefined contents. Does not use memory of more than twice
  // the size: the holder of a small message counts its bytes and must not keep a large message's
  // memory.
  Buffer take(std::size_t size) {
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

  // As longhaul::share(); the last owner returns the memory to the pool.
  Bytes share(Buffer buffer) {
    auto owned = std::make_unique<Buffer>(std::move(buffer));
    return {owned.release(), [home = weak_from_this()](const Buffer* used) {
              const std::unique_ptr<Buffer> buffer(const_cast<Buffer*>(used));  // it was made so
              if (const auto pool = home.lock()) pool->put(std::move(*buffer));
            }};
  }

 private:
  explicit BufferPool(std::size_t most) : most_(most) {}
  void put(Buffer&& buffer) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(buffer));
    if (idle_.size() > most_) idle_.erase(idle_.begin());  // the oldest: sizes may have changed
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::vector<Buffer> idle_;
};

}  // namespace longhaul::net
