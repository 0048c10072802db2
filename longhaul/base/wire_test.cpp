#include "longhaul/base/wire.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace longhaul {
namespace {

enum class Colour : std::uint8_t { red, green };

struct Inner {
  std::uint16_t id = 0;
  std::string label;
  bool operator==(const Inner&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(id, .max = 1000);
    LONGHAUL_FIELD(label, .max = 8);
  }
};

struct Outer {
  bool flag = false;
  Colour colour = Colour::red;
  std::uint32_t count = 0;
  double weight = 0;
  std::vector<Inner> inner;
  Buffer bytes;
  bool operator==(const Outer&) const = default;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(flag);
    LONGHAUL_FIELD(colour, .max = 1);
    LONGHAUL_FIELD(count);
    LONGHAUL_FIELD(weight, .min = 0, .max = 1e9);
    LONGHAUL_FIELD(inner, .max = 4);
    LONGHAUL_FIELD(bytes);
  }
};

struct Nested {
  double free = 0;  // without bounds: may be any
  Outer outer;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(free);
    LONGHAUL_FIELD(outer);
  }
};

Outer outer_example() {
  return {true, Colour::green, 77, 0.5, {{3, "three"}, {4, ""}}, {std::byte{1}, std::byte{2}}};
}

std::string why(const Buffer& bytes) {
  const Result<Outer> got = from_wire<Outer>(bytes);
  return got ? "" : got.error().what;
}

TEST(Wire, LayoutIsLittleEndianWithoutPadding) {
  const Buffer got = to_wire(Inner{0x0102, "ab"});
  const Buffer want = {std::byte{2}, std::byte{1}, std::byte{2},   std::byte{0},
                       std::byte{0}, std::byte{0}, std::byte{'a'}, std::byte{'b'}};
  EXPECT_EQ(got, want);
}

TEST(Wire, SaysWhichRealNumberItsReaderWouldRefuse) {
  Nested value{std::nan(""), outer_example()};
  EXPECT_EQ(number_out_of_range(value), "");
  for (const double weight : {-1e-300, 1.1e9, std::nan(""), HUGE_VAL}) {
    value.outer.weight = weight;
    EXPECT_EQ(number_out_of_range(value), "weight") << weight;
    EXPECT_EQ(why(to_wire(value.outer)), "weight is out of range");
  }
}

TEST(Wire, RoundTrip) {
  const Result<Outer> got = from_wire<Outer>(to_wire(outer_example()));
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, outer_example());
}

RC_GTEST_PROP(Wire, RoundTripOfAnyValue, ()) {
  Outer value;
  value.flag = *rc::gen::arbitrary<bool>();
  value.colour = *rc::gen::element(Colour::red, Colour::green);
  value.count = *rc::gen::arbitrary<std::uint32_t>();
  value.weight = double(*rc::gen::inRange(0, 1000000000));
  value.inner.resize(*rc::gen::inRange<std::size_t>(0, 5));
  for (Inner& inner : value.inner) {
    inner.id = *rc::gen::inRange<std::uint16_t>(0, 1001);
    inner.label = std::string(*rc::gen::inRange<std::size_t>(0, 9), 'x');
  }
  value.bytes.resize(*rc::gen::inRange<std::size_t>(0, 100));
  const Result<Outer> got = from_wire<Outer>(to_wire(value));
  RC_ASSERT(bool(got));
  RC_ASSERT(*got == value);
}

TEST(Wire, EveryProperPrefixIsAnError) {
  const Buffer whole = to_wire(outer_example());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Buffer part(whole.begin(), whole.begin() + std::ptrdiff_t(size));
    EXPECT_NE(why(part), "") << size;
  }
}

TEST(Wire, BytesLeftOverAreAnError) {
  Buffer bytes = to_wire(outer_example());
  bytes.push_back(std::byte{0});
  EXPECT_EQ(why(bytes), "has bytes left over");
}

// The first three fields are one, one and four bytes.
Buffer with(std::size_t at, const void* value, std::size_t size) {
  Buffer bytes = to_wire(outer_example());
  std::memcpy(bytes.data() + at, value, size);
  return bytes;
}

TEST(Wire, AFlagIsZeroOrOne) {
  const std::uint8_t two = 2;
  EXPECT_EQ(why(with(0, &two, 1)), "flag is neither 0 nor 1");
}

TEST(Wire, NumbersStayInTheirRange) {
  const std::uint8_t colour = 2;
  EXPECT_EQ(why(with(1, &colour, 1)), "colour is out of range");
  for (double weight : {-1.0, 2e9, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(why(with(6, &weight, 8)), "weight is out of range") << weight;
}

TEST(Wire, ListsStayBelowTheirMaximum) {
  const std::uint32_t five = 5;
  EXPECT_EQ(why(with(14, &five, 4)), "inner is too long");
  Outer long_label = outer_example();
  long_label.inner[0].label = "nine char";
  EXPECT_EQ(why(to_wire(long_label)), "label is too long");
}

struct Blob {
  std::vector<std::uint64_t> values;
  LONGHAUL_FIELDS(values)
};

// A length without the bytes that it promises is refused before anything is allocated.
TEST(Wire, ALyingLengthIsRefusedAtOnce) {
  Buffer bytes(4 + 8, std::byte{0});
  const std::uint32_t count = 60000;
  std::memcpy(bytes.data(), &count, 4);
  const Result<Blob> got = from_wire<Blob>(bytes);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().what, "values is longer than the message");
  EXPECT_EQ(got.error().kind, Error::Kind::malformed);
}

TEST(Wire, WithoutAMaximumTheDefaultHolds) {
  const std::vector<std::uint64_t> many(std::size_t(kDefaultMaxElements) + 1);
  const Result<Blob> got = from_wire<Blob>(to_wire(Blob{many}));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().what, "values is too long");
}

RC_GTEST_PROP(Wire, AnyBytesGiveAValueOrAnError, ()) {
  const auto raw = *rc::gen::arbitrary<std::vector<std::uint8_t>>();
  Buffer bytes(raw.size());
  if (!raw.empty()) std::memcpy(bytes.data(), raw.data(), raw.size());
  const Result<Outer> got = from_wire<Outer>(bytes);
  if (got) RC_ASSERT(to_wire(*got) == bytes);  // one value, one encoding
}

}  // namespace
}  // namespace longhaul
