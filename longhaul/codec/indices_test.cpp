#include "longhaul/codec/indices.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::codec {
namespace {

using List = std::vector<std::uint32_t>;

Buffer written(const List& indices, std::uint64_t length) {
  Buffer bytes;
  write_indices(indices, length, bytes);
  return bytes;
}

// `count` of `length`, drawn.
List drawn_list(Random& random, std::uint64_t length, std::uint64_t count) {
  List all(length);
  std::iota(all.begin(), all.end(), 0u);
  random.shuffle(std::span(all));
  all.resize(count);
  std::sort(all.begin(), all.end());
  return all;
}

void expect_round_trip(const List& indices, std::uint64_t length) {
  Buffer bytes = written(indices, length);
  EXPECT_LE(bytes.size(), most_index_bytes(length, indices.size()));
  bytes.push_back(std::byte{7});  // what follows stays
  Cursor in(bytes);
  const auto read = read_indices(in, length, indices.size());
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(*read, indices);
  EXPECT_EQ(in.rest().size(), 1u);
}

TEST(Indices, ComeBackWhateverShareIsListed) {
  Random random(1, {Purpose::test});
  for (const std::uint64_t length : {1u, 7u, 64u, 65u, 4096u, 10000u})
    for (const double share : {0.0, 0.001, 0.01, 0.05, 0.08, 0.12, 0.3, 0.9, 1.0}) {
      SCOPED_TRACE(std::to_string(length) + " " + std::to_string(share));
      expect_round_trip(drawn_list(random, length, std::uint64_t(share * double(length))), length);
    }
}

TEST(Indices, FarApartAndAtTheEnds) {
  expect_round_trip({0}, 1);
  expect_round_trip({}, 0);
  expect_round_trip({}, 1000);
  expect_round_trip({999}, 1000);
  expect_round_trip({0, 128, 129, 16513, 16514, 2113666, 4294967295u}, kMostIndexed);
}

// The form that is shortest, by the share that is listed; sizes as indices.h says.
TEST(Indices, TheShortestFormIsWritten) {
  Random random(2, {Purpose::test});
  const auto form = [&](double share) {
    return unsigned(written(drawn_list(random, 8192, std::uint64_t(share * 8192)), 8192)[0]);
  };
  EXPECT_EQ(form(0.01), 1u);
  EXPECT_EQ(form(0.04), 1u);
  EXPECT_EQ(form(0.1), 2u);
  EXPECT_EQ(form(0.2), 0u);
  List every_8th;
  for (std::uint32_t i = 0; i < 8192; i += 8) every_8th.push_back(i);
  EXPECT_EQ(written(every_8th, 8192).size(), 1 + 128 + 768u);    // chunks: 8 of each 64
  EXPECT_EQ(written({5, 6, 200}, 8192).size(), 1 + 1 + 1 + 2u);  // gaps 5, 0, 193
  List all(8192);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(written(all, 8192).size(), 1 + 1024u);
}

RC_GTEST_PROP(Indices, AnyListComesBackWithinItsBound, ()) {
  const auto length = *rc::gen::inRange<std::uint64_t>(1, 3000);
  auto list = *rc::gen::container<List>(rc::gen::inRange<std::uint32_t>(0, std::uint32_t(length)));
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  const Buffer bytes = written(list, length);
  RC_ASSERT(bytes.size() <= most_index_bytes(length, list.size()));
  Cursor in(bytes);
  const auto read = read_indices(in, length, list.size());
  RC_ASSERT(bool(read));
  RC_ASSERT(*read == list);
  RC_ASSERT(in.rest().empty());
}

// Clusters make long and short gaps: the bound holds, and does not fall with more of either.
TEST(Indices, TheBoundHoldsForClustersAndGrows) {
  Random random(3, {Purpose::test});
  for (int draw = 0; draw < 200; ++draw) {
    const std::uint64_t length = 1 + random.below(200000);
    List list;
    for (std::uint64_t at = random.below(500); at < length;
         at += random.below(4) == 0 ? 1 + random.below(40000) : 1)
      list.push_back(std::uint32_t(at));
    list.resize(std::min<std::size_t>(list.size(), 2000));
    EXPECT_LE(written(list, length).size(), most_index_bytes(length, list.size()));
    EXPECT_LE(most_index_bytes(length, list.size()), most_index_bytes(length + 1, list.size()));
    if (list.size() < length)
      EXPECT_LE(most_index_bytes(length, list.size()), most_index_bytes(length, list.size() + 1));
  }
}

// Any bytes: a list as asked for, or an error; each list has one form of bytes for each form.
TEST(Indices, AnyBytesAreAListOrAnError) {
  Random random(4, {Purpose::test});
  int lists = 0;
  for (int draw = 0; draw < 20000; ++draw) {
    const std::uint64_t length = 1 + random.below(100);
    const std::uint64_t count = random.below(length + 3);
    Buffer bytes(random.below(40));
    for (std::byte& byte : bytes) byte = std::byte(random.below(random.below(2) == 0 ? 4 : 256));
    Cursor in(bytes);
    const auto read = read_indices(in, length, count);
    if (!read) {
      EXPECT_EQ(read.error().kind, Error::Kind::malformed);
      continue;
    }
    ++lists;
    EXPECT_EQ(read->size(), count);
    EXPECT_TRUE(std::is_sorted(read->begin(), read->end()));
    EXPECT_EQ(std::adjacent_find(read->begin(), read->end()), read->end());
    if (count > 0) EXPECT_LT(read->back(), length);
  }
  EXPECT_GT(lists, 100);
}

TEST(Indices, AHugeCountWithFewBytesAllocatesNothing) {
  for (const unsigned form : {0u, 1u, 2u, 3u}) {
    const Buffer bytes = {std::byte(form), std::byte{0}};
    Cursor in(bytes);
    EXPECT_FALSE(read_indices(in, kMostIndexed, kMostIndexed));
    Cursor again(bytes);
    EXPECT_FALSE(read_indices(again, kMostIndexed + 1, 1));
  }
}

TEST(Indices, GapsAreWrittenInTheirShortestForm) {
  const Buffer padded = {std::byte{1}, std::byte{0x85}, std::byte{0x00}};  // 5, as two bytes
  Cursor in(padded);
  EXPECT_FALSE(read_indices(in, 100, 1));
  const Buffer endless(8, std::byte{0xFF});
  Cursor long_one(endless);
  EXPECT_FALSE(read_indices(long_one, kMostIndexed, 1));
}

TEST(IndicesDeathTest, ChecksThatTheyAscend) {
  Buffer out;
  EXPECT_DEATH(write_indices(List{3, 3}, 10, out), "check failed");
  EXPECT_DEATH(write_indices(List{10}, 10, out), "check failed");
}

}  // namespace
}  // namespace longhaul::codec
