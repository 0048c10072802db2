#include "longhaul/net/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/result.h"

namespace longhaul::net {
namespace {

Payload bytes(std::size_t size, unsigned seed) {
  Buffer buffer(size);
  for (std::size_t i = 0; i < size; ++i) buffer[i] = std::byte((i * 31 + seed) & 0xff);
  return Payload(share(std::move(buffer)));
}

Frame example() {
  Message message{Path().child(1).child(2), 7, 5, bytes(20, 1), bytes(100, 2)};
  Frame frame = message_frame(message, {.priority = 3, .order = 9});
  frame.header.number = 77;
  return frame;
}

TEST(Frame, TellsAllOfAMessageAndItsService) {
  Frame frame = example();
  const HeaderBytes header = seal(frame);
  const auto read = good(decode_header(header, {}));
  EXPECT_EQ(*read, frame.header);
  EXPECT_EQ(frame.size(), frame_size(frame.message()));
  const Frame copy{*read, frame.head, frame.body};
  EXPECT_EQ(copy.message().machine, Path().child(1).child(2));
  EXPECT_EQ(copy.message().kind, 7);
  EXPECT_EQ(copy.message().epoch, 5u);
  EXPECT_EQ(copy.header.number, 77u);
  EXPECT_EQ(copy.service().priority, 3);
  EXPECT_EQ(copy.service().order, 9u);
  EXPECT_EQ(copy.service().delivery, Service::Delivery::reliable);
  EXPECT_TRUE(check(*read, frame.head.view(), frame.body.view()));
}

TEST(Frame, EveryFlippedBitIsFound) {
  Frame frame = example();
  const HeaderBytes good = seal(frame);
  Buffer all(good.begin(), good.end());
  for (const auto part : {frame.head.view(), frame.body.view()})
    all.insert(all.end(), part.begin(), part.end());
  for (std::size_t bit = 0; bit < all.size() * 8; ++bit) {
    Buffer bad = all;
    bad[bit / 8] ^= std::byte(1u << bit % 8);
    const auto header = decode_header(std::span(bad).first<kFrameHeader>(), {});
    if (!header) continue;
    const std::size_t left = bad.size() - kFrameHeader;
    if (std::size_t(header->head_bytes) + header->body_bytes != left) continue;
    const auto rest = std::span(bad).subspan(kFrameHeader);
    EXPECT_FALSE(check(*header, rest.first(header->head_bytes), rest.subspan(header->head_bytes)))
        << "bit " << bit;
  }
}

TEST(Frame, LengthsBeyondTheLimitsAreRefusedBeforeAnythingIsAllocated) {
  for (const std::size_t at : {0u, 4u}) {
    Frame frame = example();
    HeaderBytes header = seal(frame);
    std::fill_n(header.begin() + std::ptrdiff_t(at), 4, std::byte{0xff});
    EXPECT_TRUE(says(decode_header(header, {}), "4294967295"));
  }
}

TEST(Frame, TheExampleOfTheDocumentationIsAFrame) {
  std::ifstream page("docs/wire-format.md");
  std::string line;
  Buffer all;
  while (std::getline(page, line) && line != "## An example") {
  }
  while (std::getline(page, line) && !line.starts_with("## ")) {
    if (!line.starts_with("    ")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) all.push_back(std::byte(std::stoul(word, nullptr, 16)));
  }
  ASSERT_EQ(all.size(), kFrameHeader + 5);
  const auto header = good(decode_header(std::span(all).first<kFrameHeader>(), {}));
  const auto rest = std::span(all).subspan(kFrameHeader);
  EXPECT_TRUE(check(*header, rest.first(3), rest.subspan(3)));
  Message message{Path::from_bits(0x23), 7, 5,
                  Payload(share(Buffer(rest.begin(), rest.begin() + 3))),
                  Payload(share(Buffer(rest.begin() + 3, rest.end())))};
  Frame frame = message_frame(message, {.priority = 3, .order = 9});
  frame.header.number = 77;
  const HeaderBytes bytes = seal(frame);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), all.begin()));
}

TEST(Frame, NoBytesMakeADecoderFail) {
  std::uint64_t accepted = 0;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    Random random(3, {Purpose::batches, i, 0, 0});
    HeaderBytes header;
    for (auto& one : header) one = std::byte(random.bits64() & 0xff);
    if (i % 2) std::fill_n(header.begin() + 1, 7, std::byte{0});
    if (i % 2) header[14] = std::byte{1};
    if (const auto read = decode_header(header, {})) {
      ++accepted;
      EXPECT_LE(read->head_bytes, FrameLimits{}.head_bytes);
      EXPECT_LE(read->body_bytes, FrameLimits{}.body_bytes);
      EXPECT_LT(read->service_class, Service::kClasses);
    }
  }
  EXPECT_GT(accepted, 0u);
}

}  // namespace
}  // namespace longhaul::net
