#include "longhaul/sync/gossip/final_return.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/hand_made.h"
#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::gossip {
namespace {

using testing::Floats;
using testing::HandMadeOverlay;
using testing::OneNode;
using testing::Quadratic;
using FinalAsked = FinalReturn::FinalAsked;

const View kBack{.epoch = 2, .live = {0, 1, 2}, .returned = {{2, 2}}};

// One of three workers.
struct AtEnd {
  explicit AtEnd(Rank self, float value, bool of_senior = false)
      : node(2, Quadratic::Config{.start = value}, Members{{"a"}, {"b"}, {"c"}}),
        overlay(new HandMadeOverlay),
        mean(std::unique_ptr<Overlay>(overlay), of_senior),
        one(mean) {
    node.place.self = self;
    node.view = kBack;
  }
  Result<bool> follow(bool gives) { return one.follow(gives, node.turn, node.turn); }
  void see(View view) {
    const View before = std::exchange(node.view, std::move(view));
    one.feed_all([&](Machine& m, Turn& t) { m.on_view(before, t); }, node.turn);
  }
  std::vector<Send> asked() const {
    auto sends = node.done<Send>();
    std::erase_if(sends, [](const Send& send) { return send.message.is_bulk(); });
    return sends;
  }
  OneNode node;
  HandMadeOverlay* overlay;
  FinalMean mean;
  FinalReturn one;
};

TEST(FinalReturn, TakesPartInAMeanThatIsNotFormedYet) {
  for (const bool gives : {false, true}) {
    AtEnd back(2, 7);
    EXPECT_FALSE(*back.follow(gives)) << "it has not heard which round runs";
    EXPECT_TRUE(back.overlay->begun.empty());
    back.overlay->next[0] = 0;
    EXPECT_FALSE(*back.follow(gives));
    EXPECT_EQ(back.overlay->begun.at({}).contributes, gives);
    EXPECT_TRUE(back.overlay->begun.at({}).exact);
    back.overlay->outcomes[{}] = {{3, 4}, 2, {0, 1}, 2};
    EXPECT_TRUE(*back.follow(gives));
    EXPECT_EQ(back.node.all(), (Floats{3, 4}));
    EXPECT_TRUE(back.asked().empty());
  }
}

// The overlay forgets what one who came back has given, when another worker is lost.
TEST(FinalReturn, BeginsAnewInANewView) {
  AtEnd back(2, 7);
  back.overlay->next[0] = 0;
  EXPECT_FALSE(*back.follow(true));
  back.overlay->begun.clear();
  EXPECT_FALSE(*back.follow(true));
  EXPECT_TRUE(back.overlay->begun.empty());
  back.see({.epoch = 3, .live = {0, 2}, .returned = {{2, 2}}});
  EXPECT_FALSE(*back.follow(true));
  EXPECT_TRUE(back.overlay->begun.contains({}));
}

// The senior answers when it has ended; whoever follows it is asked, too.
TEST(FinalReturn, AsksForAModelThatWasDecidedBeforeItCame) {
  AtEnd back(2, 7), senior(0, 5);
  back.overlay->next[0] = 1;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(*back.follow(true));
  EXPECT_TRUE(back.overlay->begun.empty());
  ASSERT_EQ(back.asked().size(), 1u);
  EXPECT_EQ(back.asked().front().to, 0u);
  EXPECT_TRUE(senior.one.on_message(2, back.asked().front().message, senior.node.turn));
  EXPECT_TRUE(senior.node.done<Send>().empty()) << "it has not ended";
  senior.one.serve(senior.node.turn);
  senior.one.serve(senior.node.turn);
  const auto sent = senior.node.done<Send>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent.front().to, 2u);
  EXPECT_TRUE(back.one.feed_message(0, sent.front().message, Path().child(1), back.node.turn));
  EXPECT_TRUE(*back.follow(true));
  EXPECT_EQ(back.node.all(), (Floats{5, 5}));
  back.see({.epoch = 3, .live = {1, 2}, .returned = {{2, 2}}});
  EXPECT_FALSE(*back.follow(true));
  EXPECT_EQ(back.asked().back().to, 1u);
}

// Round 0 may have been empty: then the others are in round 1.
TEST(FinalReturn, AfterARoundThatMayBeEmptyItAsksAndTakesPartInTheNext) {
  AtEnd back(2, 7, /*of_senior=*/true);
  back.overlay->next[0] = 1;
  EXPECT_FALSE(*back.follow(true));
  EXPECT_EQ(back.asked().size(), 1u);
  EXPECT_NE(back.one.waiting_for().find("the final model of rank 0"), std::string::npos);
  ASSERT_TRUE(back.overlay->begun.contains({1, 0, 0}));
  EXPECT_FALSE(back.overlay->begun.at({1, 0, 0}).contributes) << "it is not the senior worker";
  back.overlay->outcomes[{1, 0, 0}] = {{3, 4}, 1, {0}, 1};
  EXPECT_TRUE(*back.follow(true));
  EXPECT_EQ(back.node.all(), (Floats{3, 4}));
}

// After an empty mean the overlay has its exchange as it has those of the others.
TEST(FinalReturn, AfterAnEmptyMeanANewViewBeginsNothingAnew) {
  AtEnd back(2, 7, /*of_senior=*/true);
  back.overlay->next[0] = 0;
  EXPECT_FALSE(*back.follow(true));
  back.overlay->outcomes[{}] = {{}, 0, {}, 2};
  EXPECT_FALSE(*back.follow(true));
  ASSERT_TRUE(back.overlay->begun.contains({1, 0, 0}));
  back.overlay->begun.clear();
  back.overlay->next[0] = 1;
  back.see({.epoch = 3, .live = {2}, .returned = {{2, 2}}});
  EXPECT_FALSE(*back.follow(true)) << "as the senior worker, without an error";
  EXPECT_TRUE(back.overlay->begun.empty());
}

TEST(FinalReturn, WithNobodyLeftWhoHasTheModelItSaysSo) {
  AtEnd back(2, 7);
  back.overlay->next[0] = 0;
  back.see({.epoch = 3, .live = {2}, .returned = {{2, 2}}});
  EXPECT_FALSE(back.follow(false));
  EXPECT_FALSE(*back.follow(true)) << "its own is one of the run's";
}

TEST(FinalReturn, OnlyOneWhoCameBackMayAsk) {
  AtEnd senior(0, 5);
  Message message;
  message.kind = FinalAsked::kKind;
  for (const auto& [from, epoch, is_right] :
       {std::tuple{1u, 0u, false}, {1u, 2u, false}, {2u, 1u, false}, {2u, 2u, true}}) {
    message.head = Payload(share(to_wire(FinalAsked{epoch})));
    EXPECT_EQ(bool(senior.one.on_message(from, message, senior.node.turn)), is_right);
  }
}

}  // namespace
}  // namespace longhaul::sync::gossip
