#include "longhaul/sync/shuffle/conclusion.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::shuffle {
namespace {

// Keeps what it is given and answers what the test says.
class ScriptedOverlay final : public Overlay {
 public:
  struct Begun {
    VectorId id;
    std::vector<float> values;
    bool contributes = false, exact = false;
  };
  Status begin(const VectorId& id, const std::vector<Rank>& members, const Contribution& c,
               Turn&) override {
    EXPECT_TRUE(members.empty()) << "all workers";
    begun.push_back({id, {c.values.begin(), c.values.end()}, c.contributes, c.exact});
    return Ok{};
  }
  void close(std::uint32_t, Turn&) override {}
  std::optional<Round> next_round(std::uint32_t, std::uint32_t) const override { return 0; }
  std::optional<Outcome> poll(const VectorId& id) override {
    if (begun.empty() || begun.back().id != id) return std::nullopt;
    return std::exchange(answer, std::nullopt);
  }
  std::string waiting_for() const override { return "parts"; }

  std::vector<Begun> begun;
  std::optional<Outcome> answer;
};

struct Ending {
  explicit Ending(Rank self = 0) : node(3, {}, Members{{"a"}, {"b"}}), end(overlay) {
    node.place.self = self;
  }
  void begin(Conclusion::Model model, bool compare) {
    ASSERT_TRUE(end.begin(model, compare, node.turn, node.turn));
  }
  bool take(Outcome outcome) {
    overlay.answer = std::move(outcome);
    const auto taken = end.take(node.turn, node.turn);
    EXPECT_TRUE(taken);
    return taken && *taken;
  }
  testing::OneNode node;
  ScriptedOverlay overlay;
  Conclusion end;
};

TEST(Conclusion, EqualModelsAreLeftAsTheyAre) {
  Ending one;
  one.begin(Conclusion::Model::mean, true);
  ASSERT_EQ(one.overlay.begun.size(), 1u);
  const std::vector<float> bits = one.overlay.begun[0].values;
  EXPECT_EQ(bits.size(), 64u);
  EXPECT_TRUE(one.overlay.begun[0].exact);
  EXPECT_TRUE(one.take({bits, 2, {0, 1}}));
  EXPECT_EQ(one.overlay.begun.size(), 1u);
}

TEST(Conclusion, OneOtherBitAtOneOfThemMakesTheMean) {
  Ending one;
  one.begin(Conclusion::Model::mean, true);
  std::vector<float> bits = one.overlay.begun[0].values;
  bits[63] = 0.5;
  EXPECT_FALSE(one.take({bits, 2, {0, 1}}));
  ASSERT_EQ(one.overlay.begun.size(), 2u);
  EXPECT_EQ(one.overlay.begun[1].values, one.node.all());
  EXPECT_TRUE(one.overlay.begun[1].exact);
  EXPECT_TRUE(one.take({{1, 2, 3}, 2, {0, 1}}));
  EXPECT_EQ(one.node.all(), (std::vector<float>{1, 2, 3}));
}

TEST(Conclusion, TheHashIsOfEveryBitOfEveryNumber) {
  const auto hash_with = [](std::size_t i, float value) {
    Ending one;
    one.node.params()[i] = value;
    one.begin(Conclusion::Model::mean, true);
    return one.overlay.begun[0].values;
  };
  EXPECT_EQ(hash_with(0, 10), hash_with(1, 10)) << "what it was";
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(hash_with(i, 10), hash_with(i, 10.000001f)) << i;
  EXPECT_NE(hash_with(0, 0.0f), hash_with(0, -0.0f));
}

TEST(Conclusion, TheSeniorGivesItsModelAndTheNextOneIfItIsLost) {
  Ending other(1);
  other.begin(Conclusion::Model::senior, false);
  EXPECT_FALSE(other.overlay.begun.at(0).contributes);
  other.node.view.live = {1};
  EXPECT_FALSE(other.take({}));
  ASSERT_EQ(other.overlay.begun.size(), 2u);
  EXPECT_TRUE(other.overlay.begun[1].contributes);
  EXPECT_EQ(other.overlay.begun[1].id.round, 1u);
  EXPECT_TRUE(other.take({{4, 5, 6}, 1, {1}}));
  EXPECT_EQ(other.node.all(), (std::vector<float>{4, 5, 6}));
}

}  // namespace
}  // namespace longhaul::sync::shuffle
