#include "longhaul/record/frame.h"

#include <gmock/gmock.h>

#include "longhaul/record/testing/memory.h"

namespace longhaul::record {
namespace {

using ::testing::HasSubstr;
using testing::MemorySink, testing::MemorySource;

Buffer payload(std::size_t size, int first) {
  Buffer bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = std::byte(first + int(i));
  return bytes;
}

const std::vector<Buffer> kPayloads = {payload(40, 1), {}, payload(300, 7), payload(3, 9)};

Buffer recording() {
  MemorySink sink;
  FrameWriter writer(sink);
  for (const Buffer& bytes : kPayloads) writer.add(EntryType::input, bytes);
  LH_CHECK(writer.flush());
  return sink.bytes;
}

struct Read {
  std::vector<Frame> frames;
  std::optional<StreamEnd> ending;
  std::string error;
};

Read read_all(std::span<const std::byte> bytes, std::size_t piece = std::size_t(-1)) {
  MemorySource source(bytes, piece);
  FrameReader reader(source);
  Read read;
  for (;;) {
    auto next = reader.next();
    if (!next) return read.error = next.error().what, read;
    if (auto* ending = std::get_if<StreamEnd>(&*next)) return read.ending = *ending, read;
    read.frames.push_back(std::get<Frame>(std::move(*next)));
  }
}

TEST(Frame, WhatIsWrittenIsRead) {
  const Buffer bytes = recording();
  for (std::size_t piece : {std::size_t(-1), std::size_t{1}, std::size_t{7}}) {
    const Read read = read_all(bytes, piece);
    ASSERT_EQ(read.frames.size(), kPayloads.size());
    std::uint64_t offset = 12;
    for (std::size_t i = 0; i < kPayloads.size(); ++i) {
      EXPECT_EQ(read.frames[i].payload, kPayloads[i]);
      EXPECT_EQ(read.frames[i].number, i);
      EXPECT_EQ(read.frames[i].offset, offset);
      EXPECT_EQ(read.frames[i].size, 24 + kPayloads[i].size());
      offset += read.frames[i].size;
    }
    EXPECT_EQ(read.ending->kind, StreamEnd::Kind::between);
    EXPECT_EQ(read.ending->offset, bytes.size());
  }
}

TEST(Frame, EveryFlippedBitIsFoundWhereItIs) {
  const Buffer whole = recording();
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (unsigned bit : {0u, 3u, 7u}) {
      Buffer bytes = whole;
      bytes[i] ^= std::byte(1u << bit);
      const Read read = read_all(bytes);
      if (i < 12) {
        EXPECT_THAT(read.error, HasSubstr("recording")) << i;
        continue;
      }
      ASSERT_TRUE(read.ending && read.ending->kind == StreamEnd::Kind::damaged) << i;
      EXPECT_LE(read.ending->offset, i);
      EXPECT_LT(i, read.ending->offset + read.ending->size);
      for (std::size_t f = 0; f < read.frames.size(); ++f)
        EXPECT_EQ(read.frames[f].payload, kPayloads[f]);
    }
}

TEST(Frame, ATornEndIsToldFromDamage) {
  const Buffer whole = recording();
  std::vector<std::size_t> ends = {12};
  for (const Buffer& bytes : kPayloads) ends.push_back(ends.back() + 24 + bytes.size());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Read read = read_all(std::span(whole).first(size));
    if (size < 12) {
      EXPECT_THAT(read.error, HasSubstr("not a recording"));
      continue;
    }
    const auto entry = std::size_t(std::upper_bound(ends.begin(), ends.end(), size) - ends.begin());
    EXPECT_EQ(read.frames.size(), entry - 1);
    ASSERT_TRUE(read.ending);
    EXPECT_EQ(read.ending->kind,
              ends[entry - 1] == size ? StreamEnd::Kind::between : StreamEnd::Kind::torn)
        << size;
    EXPECT_EQ(read.ending->offset, ends[entry - 1]);
    EXPECT_EQ(read.ending->number, entry - 1);
  }
}

// The checksums go on from entry to entry.
TEST(Frame, AMissingEntryIsFound) {
  Buffer bytes = recording();
  const Read whole = read_all(bytes);
  ASSERT_EQ(whole.frames.size(), 4u);
  const Frame& second = whole.frames[1];
  const auto begin = bytes.begin() + std::ptrdiff_t(second.offset);
  bytes.erase(begin, begin + std::ptrdiff_t(second.size));
  const Read read = read_all(bytes);
  EXPECT_EQ(read.frames.size(), 1u);
  EXPECT_EQ(read.ending->kind, StreamEnd::Kind::damaged);
  EXPECT_EQ(read.ending->offset, second.offset);
}

TEST(Frame, SaysWhatItIsNot) {
  const std::string text = "[job]\nname = \"x\"\n";
  EXPECT_THAT(read_all(std::as_bytes(std::span(text.data(), text.size()))).error,
              HasSubstr("not a recording"));
  Buffer later = recording();
  later[8] = std::byte{kVersion + 1};
  EXPECT_THAT(read_all(later).error, HasSubstr("version 3 (bytes 8 to 11)"));
}

// A length that promises more than there is takes no memory for it.
TEST(Frame, MemoryIsBoundedByWhatIsThere) {
  MemorySink sink;
  FrameWriter writer(sink);
  writer.add(EntryType::input, Buffer(40 << 20));
  ASSERT_TRUE(writer.flush());
  for (std::size_t size : {std::size_t{100}, std::size_t{3} << 20}) {
    MemorySource source(std::span(sink.bytes).first(size));
    FrameReader reader(source);
    const auto next = reader.next();
    ASSERT_TRUE(next);
    EXPECT_EQ(std::get<StreamEnd>(*next).kind, StreamEnd::Kind::torn);
    EXPECT_LE(source.most_asked, std::max<std::size_t>(1 << 20, size));
  }
}

TEST(Frame, NothingIsWrittenBehindAGap) {
  MemorySink sink;
  sink.room = 60;
  FrameWriter writer(sink);
  writer.add(EntryType::input, payload(100, 1));
  EXPECT_FALSE(writer.flush());
  sink.room = std::size_t(-1);
  writer.add(EntryType::input, payload(10, 1));
  const Status status = writer.flush();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "the sink is full");
  EXPECT_TRUE(sink.bytes.empty());
}

}  // namespace
}  // namespace longhaul::record
