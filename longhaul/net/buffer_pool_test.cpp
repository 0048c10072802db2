#include "longhaul/net/buffer_pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace longhaul::net {
namespace {

TEST(BufferPool, TheMemoryOfWhatIsLetGoOfIsUsedAgain) {
  const auto pool = BufferPool::make(2);
  Buffer first = pool->take(1000);
  const std::byte* const memory = first.data();
  Bytes shared = pool->share(std::move(first));
  EXPECT_EQ(shared->size(), 1000u);
  std::optional<Payload> slice(std::in_place, shared, 10, 20);
  shared.reset();
  EXPECT_NE(pool->take(1000).data(), memory) << "somebody still looks at it";
  EXPECT_EQ(slice->view().data(), memory + 10);
  slice.reset();
  const Buffer anybodys(1000);  // would get the memory if it were free
  EXPECT_NE(anybodys.data(), memory);
  EXPECT_EQ(pool->take(1000).data(), memory);
}

TEST(BufferPool, ComesBackSmallerOrLarger) {
  const auto pool = BufferPool::make(1);
  for (const std::size_t size : {100u, 10u, 5000u, 0u, 70u}) {
    Buffer buffer = pool->take(size);
    EXPECT_EQ(buffer.size(), size);
    (void)pool->share(std::move(buffer));
  }
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  const auto pool = BufferPool::make(2);
  std::vector<Bytes> shared;
  for (int i = 0; i < 5; ++i) shared.push_back(pool->share(pool->take(1 << 20)));
  shared.clear();
  std::vector<Buffer> again;
  for (int i = 0; i < 5; ++i) again.push_back(pool->take(1 << 19));
  int kept = 0;
  for (const Buffer& buffer : again) kept += buffer.capacity() >= 1 << 20;
  EXPECT_EQ(kept, 2);
}

TEST(BufferPool, ASmallOneDoesNotHoldTheMemoryOfALargeOne) {
  const auto pool = BufferPool::make(2);
  for (int i = 0; i < 3; ++i) {
    (void)pool->share(pool->take(1 << 20));
    EXPECT_LT(pool->take(100).capacity(), 1000u);
  }
}

TEST(BufferPool, MayGoBeforeWhatItGaveAndBeLetGoOfElsewhere) {
  auto pool = BufferPool::make(2);
  Bytes shared = pool->share(pool->take(100)), other = pool->share(pool->take(100));
  std::thread([moved = std::move(other)]() mutable { moved.reset(); }).join();
  pool.reset();
  EXPECT_EQ(shared->size(), 100u);
}

}  // namespace
}  // namespace longhaul::net
