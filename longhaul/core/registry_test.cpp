#include "longhaul/core/registry.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// A combination in which nothing is wrong; tests spoil one trait.
struct Parts {
  SyncEntry sync{.name = "s", .summary = ""};
  OverlayEntry overlay{"o", "", nullptr, nullptr, {}};
  TransferEntry transfer{.name = "t", .summary = ""};
  CodecEntry codec{.name = "c", .summary = ""};
  OuterEntry outer{"plain", "", nullptr, nullptr, {.changes = false}};
  bool feedback = false;

  std::string why() const {
    const auto found = illegal(sync, overlay, transfer, codec, feedback, outer);
    return found
               ? found->why + (found->table.empty() ? "" : "; another ") + std::string(found->table)
               : "";
  }
};

bool says(const std::string& why, std::string_view part) {
  return why.find(part) != std::string::npos;
}

TEST(Illegal, NothingIsWrongWithTheDefaults) { EXPECT_EQ(Parts{}.why(), ""); }

TEST(Illegal, SumsOnTheWayNeedACodecThatAddsAndNoFeedback) {
  Parts p;
  p.overlay.traits.sums_on_the_way = true;
  EXPECT_EQ(p.why(), "");
  p.feedback = true;  // sums of what was encoded need no other coding
  EXPECT_EQ(p.why(), "");
  p.codec.traits.algebra = Algebra::reencode;
  EXPECT_TRUE(says(p.why(), "error_feedback = false"));
  p.feedback = false;
  EXPECT_EQ(p.why(), "");
  p.codec.traits.algebra = Algebra::gather;
  EXPECT_TRUE(says(p.why(), "[codec] kind = \"c\" does not allow; another overlay"));
}

TEST(Illegal, FeedbackNeedsAContractionAndAStrategyThatTakesIt) {
  Parts p;
  p.feedback = true;
  EXPECT_EQ(p.why(), "");
  p.codec.traits.contraction = false;
  EXPECT_TRUE(says(p.why(), "no contraction"));
  p.codec.traits.contraction = true;
  p.sync.traits.no_feedback = "keeps what was not sent by itself";
  EXPECT_TRUE(
      says(p.why(), "keeps what was not sent by itself: set [codec] error_feedback = false"));
  // A codec that the strategy takes with no setting of its own: the remedy is another one.
  p.sync.traits.takes_unbiased = p.codec.traits.close = false;
  EXPECT_TRUE(says(p.why(), "another codec"));
}

TEST(Illegal, WhatAStrategyDoesNotTake) {
  Parts p;
  p.sync.traits.takes_unbiased = p.sync.traits.takes_outer = false;
  EXPECT_EQ(p.why(), "");
  p.codec.traits.contraction = false;
  EXPECT_TRUE(says(p.why(), "another codec"));
  p.codec.traits.contraction = true;
  p.outer.traits.changes = true;
  EXPECT_TRUE(says(p.why(), "another outer"));
}

TEST(Illegal, WhoTalksToAServerTakesTheHub) {
  Parts p;
  p.sync.traits.only_overlay = "hub";
  EXPECT_TRUE(says(p.why(), "another overlay"));
  p.overlay.name = "hub";
  EXPECT_EQ(p.why(), "");
}

TEST(Illegal, SettingsMayChangeTraits) {
  SyncEntry entry{.name = "s", .summary = ""};
  EXPECT_TRUE(entry_with(entry, {}).traits.takes_outer);
  entry.adapt = [](const Settings& settings, SyncTraits& traits) {
    traits.takes_outer = settings.entries.empty();
  };
  EXPECT_TRUE(entry_with(entry, {}).traits.takes_outer);
  EXPECT_FALSE(entry_with(entry, {"sync", "", 0, {{"a", {true}}}}).traits.takes_outer);
}

TEST(Illegal, GapsAreForDifferencesThatAreSentStraightToTheirSum) {
  Parts p;
  p.transfer.traits.lossless = false;
  EXPECT_TRUE(says(p.why(), "needs every value that it sends"));
  EXPECT_TRUE(says(p.why(), "another transfer"));
  p.sync.traits.takes_gaps = true;
  EXPECT_EQ(p.why(), "");
  p.codec.traits.algebra = Algebra::gather;
  EXPECT_TRUE(says(p.why(), "another codec"));
  p.codec.traits.algebra = Algebra::add;
  p.overlay.traits.sums_on_the_way = true;
  EXPECT_TRUE(says(p.why(), "another overlay"));
  p.overlay.traits = {.sums_everywhere = true};
  EXPECT_TRUE(says(p.why(), "their means would differ"));
}

TEST(Bits, HaveNames) {
  EXPECT_EQ(to_string(Bits::rank), "rank");
  EXPECT_EQ(to_string(Bits::plan), "plan");
  EXPECT_EQ(to_string(Bits::schedule), "schedule");
}

}  // namespace
}  // namespace longhaul
