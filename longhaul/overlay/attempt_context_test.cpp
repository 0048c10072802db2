// What the pieces of an AgreedMean are written with, seen through the port that its transfer has.
#include <cstring>

#include <gtest/gtest.h>

#include "longhaul/core/testing/machine_net.h"
#include "longhaul/core/testing/narrow.h"
#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/owners.h"

namespace longhaul::overlay {
namespace {

using longhaul::testing::MachineNet;
using longhaul::testing::Narrow;

// Keeps what it is given, and has the port.
class Keeper final : public Transfer {
 public:
  void attach(VectorPort& owner) override { port = &owner; }
  void begin(Outgoing out, Turn&) override { posts.push_back(std::move(out)); }
  void cancel(const TransferKey&, std::optional<Rank>) override {}
  std::uint64_t remaining(const TransferKey&, Rank) const override { return 0; }
  void reprioritise(const TransferKey&, Rank, Service, Turn&) override {}
  std::optional<Arrival> arrived() override { return std::nullopt; }
  std::optional<Sent> sent() override { return std::nullopt; }
  VectorPort* port = nullptr;
  std::vector<Outgoing> posts;
};

// Rank 1 of a hub whose server is rank 0: it sends its part of eight numbers in pieces of four.
struct CodingTest : ::testing::Test {
  void begin(bool exact, bool phantom = false) {
    const std::vector<float> values = {1, 2, 3, 0, 5, 0, 0, 0};
    net = std::make_unique<MachineNet>(
        MachineNet::Config{
            .ranks = 2, .layout = Layout::flat(8), .chunk_bytes = 16, .phantom = phantom},
        [this](const Place& place) {
          OverlayParts parts;
          auto transfer = std::make_unique<Keeper>();
          if (place.self == 1) keeper = transfer.get();
          parts.transfer = std::move(transfer);
          parts.make_codec = [this, &place](bool feedback) {
            auto codec = std::make_unique<Narrow>();
            if (place.self == 1 && feedback) up = codec.get();
            return codec;
          };
          parts.server = 0;
          auto hub = std::make_unique<Hub>(Hub::Config{}, parts, place);
          return std::make_unique<AgreedMean>(place, std::move(parts), std::move(hub));
        });
    net->act(1, [&](Turn& turn) {
      const auto given = phantom ? std::span<const float>{} : std::span<const float>(values);
      ASSERT_TRUE(static_cast<AgreedMean&>(net->machine(1))
                      .begin({}, {}, {given, 8, 1, true, exact}, turn));
    });
    ASSERT_EQ(keeper->posts.size(), 1u);
    ASSERT_EQ(keeper->posts[0].ranges, (std::vector<Range>{{0, 4}, {4, 4}}));
  }
  Payload written(std::size_t piece) {
    return keeper->port->encoded(keeper->posts[0].key, keeper->posts[0].ranges[piece]);
  }
  std::unique_ptr<MachineNet> net;
  Keeper* keeper = nullptr;
  Narrow* up = nullptr;
};

// Error feedback of a vector is found by these names again.
TEST_F(CodingTest, ACodecIsToldWhoseNumbersTheseAreAndWhere) {
  begin(/*exact=*/false);
  EXPECT_EQ(written(1).size(), 1u);
  EXPECT_EQ(written(0).size(), 3u);
  ASSERT_EQ(up->asked.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(up->asked[i].first, (CodecKey{{0, 0, 0}, 1}));
  EXPECT_EQ(up->asked[0].second, (Range{4, 4}));
  EXPECT_EQ(up->asked[1].second, (Range{0, 4}));
}

TEST_F(CodingTest, AnExactVectorIsWrittenAsItStands) {
  begin(/*exact=*/true);
  const float expected[] = {5, 0, 0, 0};
  const Payload bytes = written(1);
  ASSERT_EQ(bytes.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(bytes.view().data(), expected, sizeof expected), 0);
  EXPECT_TRUE(up->asked.empty());
}

// As many bytes as a real one at most, no numbers, and no codec.
TEST_F(CodingTest, PhantomsHaveTheSizeOfTheCodecAndNoNumbers) {
  for (const bool exact : {false, true}) {
    begin(exact, /*phantom=*/true);
    EXPECT_TRUE(written(0).is_phantom());
    EXPECT_EQ(written(0).size(), exact ? 16u : 4u);
    EXPECT_TRUE(up->asked.empty());
    const auto values =
        keeper->port->decode({0, {{0, 0, 0}, 0}, 1, Coding::down}, {0, 4}, Payload::phantom(4));
    ASSERT_TRUE(values);
    EXPECT_TRUE(values->empty());
    EXPECT_FALSE(
        keeper->port->decode({0, {{0, 0, 0}, 0}, 1, Coding::down}, {0, 4}, Payload::phantom(5)));
  }
}

}  // namespace
}  // namespace longhaul::overlay
