#include "longhaul/learn/data/batches.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace longhaul::learn {
namespace {

std::vector<std::uint32_t> shard_of(std::size_t size) {
  std::vector<std::uint32_t> shard(size);
  std::iota(shard.begin(), shard.end(), 100u);
  return shard;
}

std::vector<std::uint32_t> one_epoch(Batches& batches) {
  std::vector<std::uint32_t> seen;
  for (bool last = false; !last; batches.advance()) {
    const auto batch = batches.peek();
    seen.insert(seen.end(), batch.begin(), batch.end());
    last = batches.last();
  }
  return seen;
}

RC_GTEST_PROP(Batches, EverySampleExactlyOnceAnEpoch, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(1, 60);
  const auto batch = *rc::gen::inRange<std::uint32_t>(1, 70);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  Batches batches(shard_of(size), batch, seed, 3);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    RC_ASSERT(batches.epoch() == epoch);
    auto seen = one_epoch(batches);
    std::ranges::sort(seen);
    RC_ASSERT(seen == shard_of(size));
  }
  RC_ASSERT(batches.step() == 3 * batches.per_epoch());
}

TEST(Batches, LastOneIsShort) {
  Batches batches(shard_of(10), 4, 1, 0);
  EXPECT_EQ(batches.per_epoch(), 3u);
  EXPECT_EQ(batches.peek().size(), 4u);
  batches.advance();
  EXPECT_FALSE(batches.last());
  batches.advance();
  EXPECT_TRUE(batches.last());
  EXPECT_EQ(batches.peek().size(), 2u);
}

TEST(Batches, OrderDependsOnSeedOriginAndEpoch) {
  auto order = [](std::uint64_t seed, std::uint32_t origin, int epochs) {
    Batches batches(shard_of(50), 8, seed, origin);
    for (int i = 0; i < epochs; ++i) one_epoch(batches);
    return one_epoch(batches);
  };
  EXPECT_EQ(order(1, 0, 0), order(1, 0, 0));
  EXPECT_NE(order(1, 0, 0), order(2, 0, 0));
  EXPECT_NE(order(1, 0, 0), order(1, 1, 0));
  EXPECT_NE(order(1, 0, 0), order(1, 0, 1));
}

TEST(Batches, SavedAndLoadedGoesOn) {
  Batches batches(shard_of(23), 5, 9, 2);
  for (int step = 0; step < 13; ++step) {
    Archive saved;
    batches.state(saved);
    const Buffer bytes = saved.take();
    EXPECT_EQ(bytes.size(), 8u);
    Batches again(shard_of(23), 5, 9, 2);
    Archive loading(bytes);
    again.state(loading);
    ASSERT_TRUE(loading.finish());
    for (int i = 0; i < 6; ++i, again.advance()) {
      Batches reference = batches;
      for (int j = 0; j < i; ++j) reference.advance();
      EXPECT_TRUE(std::ranges::equal(again.peek(), reference.peek()));
    }
    batches.advance();
  }
}

}  // namespace
}  // namespace longhaul::learn
