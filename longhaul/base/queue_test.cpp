#include "longhaul/base/queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "longhaul/base/archive.h"
#include "longhaul/base/rng.h"

namespace longhaul {
namespace {

TEST(Queue, DoesWhatADequeDoes) {
  Queue<std::uint64_t> queue;
  std::deque<std::uint64_t> same;
  Random random(1, {Purpose::test});
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t what = random.below(i % 1000 < 500 ? 3 : 5);
    if (what < 2 || same.empty()) {
      queue.push_back(i);
      same.push_back(i);
    } else if (what == 2) {
      queue.pop_back();
      same.pop_back();
    } else {
      queue.pop_front();
      same.pop_front();
    }
    ASSERT_EQ(queue.size(), same.size());
    ASSERT_EQ(queue.empty(), same.empty());
    if (same.empty()) continue;
    ASSERT_EQ(queue.front(), same.front());
    ASSERT_EQ(queue.back(), same.back());
    ASSERT_TRUE(std::equal(queue.begin(), queue.end(), same.begin(), same.end()));
  }
}

TEST(Queue, WhatIsPoppedIsGoneAtOnce) {
  Queue<std::shared_ptr<int>> queue;
  const auto one = std::make_shared<int>(1);
  queue.push_back(one);
  queue.push_back(one);
  queue.pop_front();
  EXPECT_EQ(one.use_count(), 2);
}

TEST(Queue, IsSavedAsADequeIs) {
  Queue<std::uint64_t> queue;
  for (const std::uint64_t i : {7u, 8u, 9u}) queue.push_back(i);
  queue.pop_front();
  std::deque<std::uint64_t> same{8, 9};
  Archive a, b;
  a(queue);
  b(same);
  const Buffer bytes = a.take();
  EXPECT_EQ(bytes, b.take());
  Archive back(bytes);
  Queue<std::uint64_t> loaded;
  loaded.push_back(1);
  back(loaded);
  EXPECT_TRUE(back.finish());
  EXPECT_TRUE(std::equal(loaded.begin(), loaded.end(), same.begin(), same.end()));
}

}  // namespace
}  // namespace longhaul
