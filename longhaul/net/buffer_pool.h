#pragma once
// Memory for what is read: a buffer that nobody looks at any more comes back, and need neither be
// fetched from the kernel nor set to zero again.
//
// take() on one thread; buffers may be let go of on any, also after the pool is gone.
// Memory: at most `most` buffers that nobody uses, none larger than was asked for before.
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
  // Of that size; what is in it is of no meaning.
  Buffer take(std::size_t size);
  // As longhaul::share(); the memory comes back.
  Bytes share(Buffer);

 private:
  explicit BufferPool(std::size_t most) : most_(most) {}
  void put(Buffer&&);

  const std::size_t most_;
  std::mutex mutex_;
  std::vector<Buffer> idle_;
};

}  // namespace longhaul::net
