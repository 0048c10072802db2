#include "longhaul/secure/datagram_keys.h"

#include <gtest/gtest.h>

#include <string_view>

#include "longhaul/base/testing/result.h"

namespace longhaul::secure {
namespace {

Buffer secret_of(int seed) {
  Buffer secret(DatagramKeys::kSecret);
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = std::byte(seed * 31 + int(i) * 7);
  return secret;
}

Buffer bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct DatagramPair {
  DatagramKeys a{secret_of(1), true}, b{secret_of(1), false};
  Buffer send(DatagramKeys& from, std::uint64_t number, std::string_view text = "hello") {
    const Buffer bytes = bytes_of(text);
    const std::span<const std::byte> parts[] = {
        std::span(bytes).first(2), {}, std::span(bytes).subspan(2)};
    const auto sealed = from.seal(number, parts);
    return {sealed.begin(), sealed.end()};
  }
};

TEST(DatagramKeys, OpenWhatTheOtherEndHasSealed) {
  DatagramPair pair;
  const Buffer sealed = pair.send(pair.a, 7);
  EXPECT_EQ(sealed.size(), 5 + DatagramKeys::kOverhead);
  const auto prefix = good(DatagramKeys::prefix_of(sealed));
  EXPECT_EQ(prefix->number, 7u);
  EXPECT_EQ(prefix->id, pair.a.id());
  const auto opened = good(pair.b.open(sealed));
  EXPECT_EQ(opened->number, 7u);
  EXPECT_EQ(Buffer(opened->bytes.begin(), opened->bytes.end()), bytes_of("hello"));
  const auto back = pair.b.seal(7, {});
  EXPECT_TRUE(pair.a.open(back)) << "a key for each direction: numbers may be equal";
}

TEST(DatagramKeys, DoNotOpenTheirOwnOrThoseOfOtherConnections) {
  DatagramPair pair;
  EXPECT_FALSE(pair.a.open(pair.send(pair.a, 1))) << "sent back to its sender";
  DatagramKeys other(secret_of(2), false);
  Buffer sealed = pair.send(pair.a, 2);
  EXPECT_FALSE(other.open(sealed));
  DatagramKeys peer(secret_of(2), true);
  const std::uint32_t id = peer.id();
  for (std::size_t i = 0; i < 4; ++i) sealed[i] = std::byte(id >> (8 * i) & 0xff);
  ASSERT_TRUE(other.knows(id));
  EXPECT_FALSE(other.open(sealed)) << "the same id, another key";
}

// The sender goes on to the next key; what was under way is opened, what is older is not.
TEST(DatagramKeys, AnUpdateIsFollowedByTheFirstThatComesUnderIt) {
  DatagramPair pair;
  const Buffer first = pair.send(pair.a, 1), late = pair.send(pair.a, 2),
               later = pair.send(pair.a, 3);
  const std::uint32_t id = pair.a.id();
  pair.a.update();
  EXPECT_NE(pair.a.id(), id);
  Buffer second = pair.send(pair.a, 4);
  EXPECT_TRUE(pair.b.open(first));
  Buffer forged = second;
  forged.back() ^= std::byte{1};
  EXPECT_FALSE(pair.b.open(forged));
  EXPECT_TRUE(pair.b.knows(id)) << "a forged one moves nothing";
  EXPECT_TRUE(pair.b.open(second));
  EXPECT_TRUE(pair.b.open(late)) << "under way when the key changed";
  pair.a.update();
  EXPECT_TRUE(pair.b.open(pair.send(pair.a, 5)));
  EXPECT_FALSE(pair.b.knows(id));
  EXPECT_FALSE(pair.b.open(later)) << "a key that both have left";
  EXPECT_TRUE(pair.a.open(pair.send(pair.b, 1))) << "the other direction has its own";
  for (std::uint64_t number = 6; number < 100; ++number) {
    pair.a.update();
    EXPECT_TRUE(pair.b.open(pair.send(pair.a, number))) << number;
  }
  pair.a.update();
  pair.a.update();
  EXPECT_FALSE(pair.b.open(pair.send(pair.a, 200))) << "two keys ahead";
}

TEST(DatagramKeys, AnyFlippedBitIsFound) {
  DatagramPair pair;
  const Buffer sealed = pair.send(pair.a, 7);
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    Buffer changed = sealed;
    changed[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(pair.b.open(changed)) << bit;
  }
  for (std::size_t size = 0; size < sealed.size(); ++size)
    EXPECT_FALSE(pair.b.open(std::span(sealed).first(size))) << size;
  EXPECT_TRUE(pair.b.open(sealed)) << "what was forged has moved nothing";
}

TEST(DatagramKeys, ANumberIsTakenOnce) {
  DatagramPair pair;
  std::vector<Buffer> sealed;
  for (std::uint64_t number = 1; number <= 10; ++number)
    sealed.push_back(pair.send(pair.a, number));
  for (const std::size_t i : {3u, 1u, 9u, 0u, 4u}) EXPECT_TRUE(pair.b.open(sealed[i])) << i;
  for (const std::size_t i : {3u, 1u, 9u, 0u, 4u}) EXPECT_FALSE(pair.b.open(sealed[i])) << i;
  for (const std::size_t i : {2u, 5u, 6u, 7u, 8u}) EXPECT_TRUE(pair.b.open(sealed[i])) << i;
}

TEST(DatagramKeys, WhatIsOlderThanTheWindowIsDropped) {
  constexpr std::uint64_t kFar = 100000;
  DatagramPair pair;
  const auto take = [&](std::uint64_t number) {
    return pair.b.open(pair.send(pair.a, number)).has_value();
  };
  EXPECT_FALSE(take(0)) << "numbers count from 1";
  EXPECT_TRUE(take(5));
  EXPECT_TRUE(take(kFar));
  EXPECT_FALSE(take(kFar - DatagramKeys::kWindow));
  EXPECT_TRUE(take(kFar - DatagramKeys::kWindow + 1));
  EXPECT_TRUE(take(kFar + DatagramKeys::kWindow - 1));
  EXPECT_FALSE(take(kFar - 1)) << "the window has moved on";
  EXPECT_FALSE(take(kFar)) << "replayed at the window's far end";
  EXPECT_TRUE(take(kFar + 1));
}

}  // namespace
}  // namespace longhaul::secure
