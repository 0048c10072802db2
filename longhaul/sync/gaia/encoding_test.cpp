#include "longhaul/sync/gaia/encoding.h"

#include <gtest/gtest.h>

#include <cstring>

#include "longhaul/base/testing/result.h"
#include "longhaul/codec/registry.h"

namespace longhaul::sync::gaia {
namespace {

using Indexes = std::vector<std::uint32_t>;
constexpr UpdateKey kKey{.clock = 3, .origin = 1};

Coder exact_coder() { return {false, nullptr, nullptr}; }
Coder half_coder() {
  const Settings fp16{.table = "codec", .entries = {{"kind", {std::string("fp16")}}}};
  return {false, *codec::make_codec(fp16, {}, false), nullptr};
}

// Every `step`-th value of a range of `length`.
RangeUpdate every(std::uint32_t step, std::uint32_t length) {
  RangeUpdate update{.range = 2, .count = 0, .indexes = {}, .values = {}};
  for (std::uint32_t i = 0; i < length; i += step) {
    update.indexes.push_back(i);
    update.values.push_back(0.1f * float(i) - 3);
  }
  update.count = update.values.size();
  if (step == 1) update.indexes.clear();
  return update;
}

Result<RangeUpdate> read_back(const VectorContent& content, Form form, std::uint64_t count,
                              std::uint64_t length, const Coder& coder, Coding coding) {
  LH_TRY(check_shape(form, count, length, content.shape(), coder, coding));
  return decode(2, form, count, length, content, kKey, coding, coder);
}

// gaia_test.cpp, invariant 6: never more than dense.
TEST(GaiaEncoding, TheSmallestFormIsTaken) {
  const Coder coder = exact_coder();
  const auto smallest = [&](std::uint64_t count, std::uint64_t length) {
    const Form form = smallest_form(count, length, coder, Coding::up);
    return std::pair{form, bytes_of(form, count, length, coder, Coding::up)};
  };
  EXPECT_EQ(smallest(10, 1000), (std::pair{Form::sparse, std::uint64_t(80)}));
  EXPECT_EQ(smallest(100, 1000), (std::pair{Form::bitmap, std::uint64_t(525)}));
  EXPECT_EQ(smallest(500, 1000), (std::pair{Form::bitmap, std::uint64_t(2125)}));
  EXPECT_EQ(smallest(1000, 1000), (std::pair{Form::dense, std::uint64_t(4000)}));
  for (std::uint64_t length = 1; length < 70; ++length)
    for (std::uint64_t count = 1; count <= length; ++count)
      EXPECT_LE(smallest(count, length).second, 4 * length);
}

// gaia_test.cpp, invariant 13: sparse before bitmap before dense; a bitmap of ceil(n / 8) bytes.
TEST(GaiaEncoding, OfEquallySmallFormsTheFirstIsTaken) {
  const Coder coder = exact_coder();
  EXPECT_EQ(bytes_of(Form::bitmap, 1, 9, coder, Coding::up), 6u);
  EXPECT_EQ(smallest_form(1, 32, coder, Coding::up), Form::sparse);   // 8, 8, 128
  EXPECT_EQ(smallest_form(31, 32, coder, Coding::up), Form::bitmap);  // 248, 128, 128
  EXPECT_EQ(smallest_form(1, 2, coder, Coding::up), Form::bitmap);    // 8, 5, 8
}

TEST(GaiaEncoding, EveryFormIsReadAsItWasWritten) {
  for (const std::uint32_t length : {1u, 7u, 8u, 9u, 100u, 1001u}) {
    for (const std::uint32_t step : {1u, 2u, 9u}) {
      Coder coder = exact_coder();
      const RangeUpdate update = every(step, length);
      for (const Form form : {Form::sparse, Form::bitmap, Form::dense}) {
        if ((form == Form::dense) != update.indexes.empty()) continue;
        const VectorContent content = encode(update, form, length, kKey, Coding::up, coder);
        EXPECT_EQ(content.shape().size, bytes_of(form, update.count, length, coder, Coding::up));
        EXPECT_EQ(*good(read_back(content, form, update.count, length, coder, Coding::up)), update);
      }
    }
  }
}

TEST(GaiaEncoding, TheCodecWritesTheValues) {
  Coder coder = half_coder();
  const RangeUpdate update = every(9, 100);
  const Form form = smallest_form(update.count, 100, coder, Coding::up);
  const VectorContent content = encode(update, form, 100, kKey, Coding::up, coder);
  EXPECT_EQ(content.shape().size, 13u + 2 * update.count);
  const auto read = good(read_back(content, form, update.count, 100, coder, Coding::up));
  EXPECT_EQ(read->indexes, update.indexes);
  EXPECT_NE(read->values, update.values);
  for (std::size_t k = 0; k < update.count; ++k)
    EXPECT_NEAR(read->values[k], update.values[k], 0.004);
}

TEST(GaiaEncoding, APhantomHasSizesAlone) {
  Coder coder(true, nullptr, nullptr);
  const RangeUpdate update{.range = 2, .count = 100, .indexes = {}, .values = {}};
  const VectorContent content = encode(update, Form::bitmap, 1000, kKey, Coding::up, coder);
  EXPECT_EQ(content.shape().size, 525u);
  EXPECT_EQ(*good(read_back(content, Form::bitmap, 100, 1000, coder, Coding::up)), update);
}

TEST(GaiaEncoding, DenselyHasZerosBetween) {
  EXPECT_EQ(densely({.range = 1, .count = 2, .indexes = {1, 3}, .values = {5, 7}}, 5).values,
            (std::vector<float>{0, 5, 0, 7, 0}));
}

VectorContent sparse_of(const Indexes& indexes) {
  Buffer bytes(8 * indexes.size());
  std::memcpy(bytes.data(), indexes.data(), 4 * indexes.size());
  return VectorContent::bytes(share(std::move(bytes)));
}

// Validated before anything is applied: range, order, uniqueness, lengths.
TEST(GaiaEncoding, WhatCannotBeGenuineIsRefused) {
  const Coder coder = exact_coder();
  const auto reads = [&](const VectorContent& content, Form form, std::uint64_t count) {
    return bool(read_back(content, form, count, 10, coder, Coding::up));
  };
  EXPECT_TRUE(reads(sparse_of({0, 4, 9}), Form::sparse, 3));
  EXPECT_FALSE(reads(sparse_of({0, 4, 10}), Form::sparse, 3));
  EXPECT_FALSE(reads(sparse_of({4, 0, 9}), Form::sparse, 3));
  EXPECT_FALSE(reads(sparse_of({0, 4, 4}), Form::sparse, 3));
  EXPECT_FALSE(reads(sparse_of({0, 4, 9}), Form::sparse, 2));
  EXPECT_FALSE(reads(sparse_of({0, 4, 9}), Form::sparse, 4));
  EXPECT_FALSE(reads(sparse_of({0}), Form::sparse, 0));
  EXPECT_FALSE(reads(sparse_of(Indexes(11)), Form::sparse, 11));
  const auto bitmap = [](std::uint8_t low, std::uint8_t high) {
    Buffer bytes(2 + 8);
    bytes[0] = std::byte(low);
    bytes[1] = std::byte(high);
    return VectorContent::bytes(share(std::move(bytes)));
  };
  EXPECT_TRUE(reads(bitmap(1, 2), Form::bitmap, 2));
  EXPECT_FALSE(reads(bitmap(1, 4), Form::bitmap, 2));  // bit 10
  EXPECT_FALSE(reads(bitmap(3, 2), Form::bitmap, 2));
  EXPECT_FALSE(reads(bitmap(1, 0), Form::bitmap, 2));
  Buffer whole(40);
  EXPECT_TRUE(reads(VectorContent::bytes(share(Buffer(whole))), Form::dense, 10));
  EXPECT_FALSE(reads(VectorContent::bytes(share(Buffer(whole))), Form::dense, 9));
  whole[3] = whole[2] = std::byte(0xFF);  // not a number
  EXPECT_FALSE(reads(VectorContent::bytes(share(std::move(whole))), Form::dense, 10));
  EXPECT_FALSE(reads(VectorContent::bytes(share(Buffer(39))), Form::dense, 10));
  EXPECT_FALSE(reads(VectorContent(), Form::dense, 10));
}

}  // namespace
}  // namespace longhaul::sync::gaia
