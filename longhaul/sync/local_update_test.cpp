#include "longhaul/sync/local_update.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync {
namespace {

using testing::OneNode;
using Floats = std::vector<float>;

// Doubles what it gets, and keeps it.
class Twice final : public Transform {
 public:
  void apply(std::span<float> update) override {
    got.assign(update.begin(), update.end());
    for (float& u : update) u *= 2;
  }
  Floats got;
};

class Same final : public Transform {
 public:
  void apply(std::span<float>) override {}
};

void walk(OneNode& node, const Floats& way) {
  for (std::size_t i = 0; i < way.size(); ++i) node.params()[i] += way[i];
}

// Buffers are averaged as they are, by the exchange of exact values; an update of them would count
// them twice.
TEST(LocalUpdate, BuffersAreNeitherMeasuredNorMoved) {
  OneNode node(5, {.start = 10, .buffers = 2});
  LocalUpdate local;
  local.anchor(node.turn);
  walk(node, {1, 2, 3, 40, 50});
  EXPECT_EQ(local.update(node.turn), (Floats{1, 2, 3}));
  Same same;
  Floats ubar = {1, 1, 1};
  local.apply(ubar, same, node.turn);
  EXPECT_EQ(node.all(), (Floats{11, 11, 11, 40, 50}));
}

// However far each has walked: nothing of its own way stays, for it is in the mean.
TEST(LocalUpdate, UnlikeWaysEndAtTheSameBitsRoundAfterRound) {
  OneNode one(3, {.start = 0.1f}), other(3, {.start = 0.1f});
  LocalUpdate local_one, local_other;
  local_one.anchor(one.turn);
  local_other.anchor(other.turn);
  Floats sum = one.all();
  Same same;
  for (int round = 0; round < 20; ++round) {
    walk(one, {0.3f, -7, 1e-3f});
    walk(other, {-0.2f, 1e5f, 3});
    Floats ubar = {0.7f, 1e-7f, -0.1f}, again = ubar;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += ubar[i];
    local_one.apply(ubar, same, one.turn);
    local_other.apply(again, same, other.turn);
    ASSERT_EQ(one.all(), sum) << round;
    ASSERT_EQ(other.all(), sum) << round;
    EXPECT_EQ(local_one.update(one.turn), Floats(3)) << "the anchor has not moved along";
  }
}

TEST(LocalUpdate, TheOuterOptimiserHasTheLastWord) {
  OneNode node(2, {.start = 1});
  LocalUpdate local;
  local.anchor(node.turn);
  walk(node, {100, 100});
  Twice twice;
  Floats ubar = {0.5f, -2};
  local.apply(ubar, twice, node.turn);
  EXPECT_EQ(twice.got, (Floats{0.5f, -2})) << "it is given the mean, not what stands here";
  EXPECT_EQ(node.all(), (Floats{2, -3}));
}

TEST(LocalUpdate, APhantomHasNothingToSay) {
  OneNode node(4);
  node.place.phantom = true;
  LocalUpdate local;
  local.anchor(node.turn);
  EXPECT_TRUE(local.update(node.turn).empty());
  Same same;
  local.apply({}, same, node.turn);
  Archive saved;
  local.state(saved);
  EXPECT_EQ(saved.take().size(), sizeof(std::uint64_t)) << "and keeps no vector";
}

TEST(LocalUpdate, LoadedHalfWayItGoesOnAlike) {
  OneNode node(3, {.start = 4});
  LocalUpdate local, loaded;
  local.anchor(node.turn);
  walk(node, {1, -1, 0.25f});
  const Buffer bytes = longhaul::testing::saved(local);
  ASSERT_TRUE(longhaul::testing::load(loaded, bytes));
  EXPECT_EQ(loaded.update(node.turn), (Floats{1, -1, 0.25f}));
  Archive torn(std::span<const std::byte>(bytes).first(bytes.size() - 1));
  loaded.state(torn);
  EXPECT_FALSE(torn.finish());
}

TEST(LocalUpdate, AnAnchorOfAnotherModelIsFound) {
  OneNode node(3);
  LocalUpdate local;
  EXPECT_FALSE(local.fits(3)) << "none yet";
  local.anchor(node.turn);
  EXPECT_TRUE(local.fits(3));
  EXPECT_FALSE(local.fits(2) || local.fits(4));
}

TEST(LocalUpdate, AnUpdateWithoutAnAnchorIsOurFault) {
  OneNode node(3);
  const LocalUpdate local;
  EXPECT_DEATH(local.update(node.turn), "check failed");
}

}  // namespace
}  // namespace longhaul::sync
