#include "longhaul/base/archive.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

enum class Phase : std::uint8_t { idle, busy };

struct Point {
  std::int32_t x = 0;
  float y = 0;
  bool operator==(const Point&) const = default;
  LONGHAUL_FIELDS(x, y)
};

// One member of every kind that an Archive knows.
struct Machine {
  bool on = false;
  Phase phase = Phase::idle;
  std::uint64_t round = 0;
  double loss = 0;
  std::string name;
  std::vector<float> anchor;
  std::vector<Point> points;
  std::vector<bool> bits;
  std::deque<std::string> queue;
  std::map<std::uint32_t, std::vector<int>> by_rank;
  std::set<std::uint32_t> seen;
  std::optional<Point> last;
  std::pair<int, std::string> pair;
  std::array<std::uint16_t, 3> triple{};
  std::chrono::nanoseconds deadline{};
  bool operator==(const Machine&) const = default;

  void state(Archive& ar) {
    ar.expect("machine");
    ar(on, phase, round, loss, name, anchor, points, bits, queue, by_rank, seen, last, pair, triple,
       deadline);
  }
};

Machine example() {
  Machine m{.on = true,
            .phase = Phase::busy,
            .round = std::uint64_t{1} << 40,
            .loss = 0.1,
            .name = "ring",
            .anchor = {1, 2.5f, -0.0f}};
  m.points = {{1, 2}, {3, 4}};
  m.bits = {true, false, true};
  m.queue = {"a", "", "ccc"};
  m.by_rank = {{0, {1, 2}}, {7, {}}};
  m.seen = {3, 1, 2};
  m.last = Point{9, 9};
  m.pair = {-1, "minus"};
  m.triple = {1, 2, 3};
  m.deadline = std::chrono::milliseconds(5);
  return m;
}

template <class T>
Buffer saved(T value) {
  Archive out;
  out(value);
  return out.take();
}

template <class T>
Status load(const Buffer& bytes, T& into) {
  Archive in(bytes);
  in(into);
  return in.finish();
}

TEST(Archive, SavesAndLoadsEveryKindOfMember) {
  Machine loaded;
  loaded.anchor = {7};  // what was there before does not matter
  loaded.by_rank = {{5, {5}}};
  loaded.last = Point{};
  ASSERT_TRUE(load(saved(example()), loaded));
  EXPECT_EQ(loaded, example());
  Machine empty;
  ASSERT_TRUE(load(saved(Machine{}), loaded));
  EXPECT_EQ(loaded, empty);
}

TEST(Archive, EveryTornFileIsAnError) {
  const Buffer whole = saved(example());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Buffer torn(whole.begin(), whole.begin() + std::ptrdiff_t(size));
    Machine into;
    const Status status = load(torn, into);
    ASSERT_FALSE(status) << size;
    EXPECT_EQ(status.error().kind, Error::Kind::malformed);
  }
}

TEST(Archive, BytesLeftOverAreAnError) {
  Buffer bytes = saved(example());
  bytes.push_back(std::byte{1});
  Machine into;
  EXPECT_FALSE(load(bytes, into));
}

TEST(Archive, BytesFlippedAnywhereNeitherCrashNorAllocateWithoutBound) {
  const Buffer whole = saved(example());
  int refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Buffer bytes = whole;
    bytes[i] ^= std::byte{0xFF};
    Machine into;
    refused += !load(bytes, into);
  }
  EXPECT_GT(refused, 0);
}

TEST(Archive, ALyingLengthIsRefusedBeforeAllocating) {
  const std::uint64_t huge = std::uint64_t{1} << 60;
  Buffer bytes(sizeof huge);
  std::memcpy(bytes.data(), &huge, sizeof huge);
  std::vector<float> numbers;
  std::vector<Point> points;
  std::string text;
  Payload payload;
  EXPECT_FALSE(load(bytes, numbers));
  EXPECT_FALSE(load(bytes, points));
  EXPECT_FALSE(load(bytes, text));
  EXPECT_FALSE(load(bytes, payload));
}

TEST(Archive, ACheckpointOfAnotherKindIsNamed) {
  Archive out;
  out.expect("fedavg");
  const Buffer bytes = out.take();
  Archive in(bytes);
  in.expect("diloco");
  const Status status = in.finish();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "checkpoint holds 'fedavg' where 'diloco' is expected");
}

TEST(Archive, FloatsOfAFixedSizeRefuseAnotherSize) {
  std::vector<float> three = {1, 2, 3}, two(2), again(3);
  Archive out;
  out.floats(three);
  const Buffer bytes = out.take();
  Archive same(bytes), other(bytes);
  same.floats(again);
  EXPECT_TRUE(same.finish());
  EXPECT_EQ(again, three);
  other.floats(two);
  const Status status = other.finish();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "checkpoint holds a model of another size");
}

TEST(Archive, PayloadsKeepBytesAndPhantoms) {
  const Bytes bytes = share({std::byte{1}, std::byte{2}, std::byte{3}});
  Payload slice, ghost, empty = Payload::phantom(5);
  ASSERT_TRUE(load(saved(Payload(bytes, 1, 2)), slice));
  ASSERT_EQ(slice.size(), 2u);
  EXPECT_EQ(slice.view()[0], std::byte{2});
  ASSERT_TRUE(load(saved(Payload::phantom(99)), ghost));
  EXPECT_TRUE(ghost.is_phantom());
  EXPECT_EQ(ghost.size(), 99u);
  ASSERT_TRUE(load(saved(Payload()), empty));
  EXPECT_EQ(empty.size(), 0u);
}

TEST(Archive, NullBytesStayNull) {
  Bytes full = share({std::byte{1}}), loaded;
  ASSERT_TRUE(load(saved(full), loaded));
  EXPECT_EQ(*loaded, *full);
  ASSERT_TRUE(load(saved(Bytes()), loaded));
  EXPECT_EQ(loaded, nullptr);
}

TEST(PayloadDeathTest, CannotLookIntoAPhantomOrBeyondItsBytes) {
  EXPECT_DEATH((void)Payload::phantom(3).view(), "check failed");
  EXPECT_DEATH(Payload(share(Buffer(2)), 1, 2), "check failed");
}

}  // namespace
}  // namespace longhaul
