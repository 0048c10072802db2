#pragma once
// Reuses read buffers: an unused buffer is kept and neither returned to the system nor set to zero
// again.
//
// Threads: take() on one; buffers may be released on any thread, also after the pool is destroyed.
// Memory: at most `most` unused buffers, none larger than any requested before.
#include <memory>
#include <mutex>
#include <vector>

#include "longhaul/base/bytes.h"

namespace longhaul::net {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static std::shared_ptr<BufferPool> make(std::size_t most) {
    return std::shared_ptr<BufferPool>(new BufferPool(most));
  }
  // A buffer of that size; its contents are undefined.
  Buffer take(std::size_t size);
  // As longhaul::share(); the last owner returns the memory to the pool.
  Bytes share(Buffer);

 private:
  explicit BufferPool(std::size_t most) : most_(most) {}
  void put(Buffer&&);

  const std::size_t most_;
  std::mutex mutex_;
  std::vector<Buffer> idle_;
};

}  // namespace longhaul::net
