#include "longhaul/core/coder.h"

#include <cstring>

#include <gtest/gtest.h>

#include "longhaul/core/testing/narrow.h"

namespace longhaul {
namespace {

using testing::Narrow;

constexpr CodecKey kKey{{3, 1, 0}, 2};
constexpr Range kAt{8, 4};

struct CoderTest : ::testing::Test {
  explicit CoderTest(bool phantom = false) {
    auto with = std::make_unique<Narrow>(), means = std::make_unique<Narrow>();
    up = with.get(), down = means.get();
    coder = std::make_unique<Coder>(phantom, std::move(with), std::move(means));
  }
  auto read(Coding coding, std::size_t bytes, std::byte fill = std::byte{1}) {
    return coder->read(kKey, coding, kAt, Payload(share(Buffer(bytes, fill))));
  }
  Narrow *up, *down;
  std::unique_ptr<Coder> coder;
};

struct PhantomCoderTest : CoderTest {
  PhantomCoderTest() : CoderTest(true) {}
};

// Error feedback of a vector is found by these names again.
TEST_F(CoderTest, ACodecIsToldWhoseNumbersTheseAreAndWhatBecomesOfThem) {
  const float values[] = {1, 2, 3, 0};
  EXPECT_EQ(coder->write(kKey, Coding::up, kAt, values).size(), 3u);
  EXPECT_EQ(up->asked, (std::vector<std::pair<CodecKey, Range>>{{kKey, kAt}}));
  coder->settle(kKey, Coding::down, Codec::Fate::abandoned);
  coder->settle(kKey, Coding::exact, Codec::Fate::abandoned);
  EXPECT_TRUE(up->fates.empty());
  ASSERT_EQ(down->fates.size(), 1u);
  EXPECT_EQ(down->fates[0], (std::pair{kKey, Codec::Fate::abandoned}));
}

// Unless the codec of what goes up asks for it.
TEST_F(CoderTest, MeansAreOverAll) {
  EXPECT_FALSE(coder->mean_of_senders());
  EXPECT_FALSE(Coder(false, nullptr, nullptr).mean_of_senders());
}

TEST_F(CoderTest, AnExactVectorIsWrittenAsItStands) {
  const float values[] = {5, 0, -1.5f, 0};
  const Payload bytes = coder->write(kKey, Coding::exact, kAt, values);
  ASSERT_EQ(bytes.size(), sizeof values);
  EXPECT_EQ(std::memcmp(bytes.view().data(), values, sizeof values), 0);
  EXPECT_EQ(*coder->read(kKey, Coding::exact, kAt, bytes), (std::vector<float>{5, 0, -1.5f, 0}));
  Coder plain(false, nullptr, nullptr);
  for (const Coding coding : {Coding::exact, Coding::up, Coding::down})
    EXPECT_EQ(*plain.read(kKey, coding, kAt, bytes), (std::vector<float>{5, 0, -1.5f, 0}));
  EXPECT_TRUE(up->asked.empty());
}

// A codec never sees more than it would write; fewer may be right. Exact values are all or none.
TEST_F(CoderTest, PiecesOfAnImpossibleLengthAreRefused) {
  for (const Coding coding : {Coding::up, Coding::down}) {
    for (std::size_t bytes = 0; bytes <= 4; ++bytes) {
      const auto values = read(coding, bytes);
      ASSERT_TRUE(values) << bytes;
      EXPECT_EQ(values->size(), 4u);
    }
    for (const std::size_t bytes : {5u, 16u, 100000u}) EXPECT_FALSE(read(coding, bytes)) << bytes;
  }
  for (std::size_t bytes = 0; bytes <= 20; ++bytes)
    EXPECT_EQ(bool(read(Coding::exact, bytes)), bytes == 16) << bytes;
}

TEST_F(CoderTest, ExactValuesAreFinite) {
  EXPECT_TRUE(read(Coding::exact, 16));
  EXPECT_FALSE(read(Coding::exact, 16, std::byte{0xFF}));
}

TEST_F(CoderTest, KeepsWhatItsCodecsKeep) {
  up->kept = 1, down->kept = 2;
  Archive saving;
  coder->state(saving);
  up->kept = down->kept = 0;
  const Buffer kept = saving.take();
  Archive loading(kept);
  coder->state(loading);
  EXPECT_EQ(up->kept, 1);
  EXPECT_EQ(down->kept, 2);
}

// As many bytes as a real one at most, no numbers, and no codec.
TEST_F(PhantomCoderTest, PhantomsHaveTheSizeOfTheCodecAndNoNumbers) {
  for (const auto& [coding, size] : {std::pair{Coding::up, 4u}, std::pair{Coding::exact, 16u}}) {
    const Payload bytes = coder->write(kKey, coding, kAt, {});
    EXPECT_TRUE(bytes.is_phantom());
    EXPECT_EQ(bytes.size(), size);
    const auto values = coder->read(kKey, coding, kAt, bytes);
    ASSERT_TRUE(values);
    EXPECT_TRUE(values->empty());
    EXPECT_FALSE(coder->read(kKey, coding, kAt, Payload::phantom(size + 1)));
  }
  EXPECT_TRUE(up->asked.empty());
}

}  // namespace
}  // namespace longhaul
