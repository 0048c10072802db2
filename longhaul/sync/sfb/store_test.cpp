#include "longhaul/sync/sfb/store.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"

namespace longhaul::sync::sfb {
namespace {

FactorsHeader piece_of(Rank origin, Round clock, std::uint32_t part) {
  return {.clock = clock, .origin = origin, .part = part};
}

TEST(SfbStore, CountsClocksThatAreHereInFull) {
  FactorStore store(2);
  EXPECT_EQ(store.done(1), 0u);
  store.add(piece_of(1, 1, 0), {});
  store.add(piece_of(1, 1, 1), {});
  EXPECT_EQ(store.done(1), 0u) << "clock 0 has not come";
  store.add(piece_of(1, 0, 1), {});
  EXPECT_EQ(store.done(1), 0u);
  store.add(piece_of(1, 0, 0), {});
  EXPECT_EQ(store.done(1), 2u);
  EXPECT_EQ(store.pieces(1, 1).at(1).header.part, 1u);
  EXPECT_EQ(store.done(0), 0u);
}

TEST(SfbStore, TakesEachPieceOnce) {
  FactorStore store(2);
  EXPECT_TRUE(store.is_new(1, 0, 0));
  store.add(piece_of(1, 0, 0), {});
  EXPECT_FALSE(store.is_new(1, 0, 0));
  EXPECT_TRUE(store.is_new(1, 0, 1));
  store.add(piece_of(1, 0, 1), {});
  store.drop_before(1);
  EXPECT_EQ(store.find(1, 0), nullptr);
  EXPECT_FALSE(store.is_new(1, 0, 0)) << "it has been here";
  EXPECT_TRUE(store.is_new(1, 1, 0));
}

TEST(SfbStore, KeepsWhatIsNotDoneUnlessItsOriginIsLost) {
  FactorStore store(2);
  store.add(piece_of(1, 0, 0), {});
  store.drop_before(3);
  EXPECT_FALSE(store.is_new(1, 0, 0));
  store.drop_unfinished(1);
  EXPECT_TRUE(store.is_new(1, 0, 0));
  store.drop_unfinished(7);
}

// Clocks that do not count are passed over, as soon as this is known, and never waited for.
TEST(SfbStore, PassesOverWhatDoesNotCount) {
  FactorStore store(1);
  for (const Round clock : {0u, 1u, 2u}) store.add(piece_of(1, clock, 0), {});
  store.set_counted(1, {{0, 4}}, 6);
  EXPECT_EQ(store.done(1), 3u);
  EXPECT_FALSE(store.is_complete(1, 4));
  store.add(piece_of(1, 3, 0), {});
  EXPECT_EQ(store.done(1), 6u);
  EXPECT_TRUE(store.is_complete(1, 6));
  EXPECT_FALSE(store.is_complete(1, 7));
  EXPECT_FALSE(store.counts(1, 4));
  EXPECT_TRUE(store.counts(1, 6));
  store.add(piece_of(1, 6, 0), {});
  EXPECT_EQ(store.held(1), (std::vector<Span>{{0, 4}, {6, 7}}));
  store.set_counted(1, {{0, 4}, {6, 7}}, 9);  // it enters again
  EXPECT_EQ(store.done(1), 9u);
  EXPECT_EQ(store.entry(1), 9u);
}

TEST(SfbStore, OfALostOneNothingIsAwaitedBeyondWhatCounts) {
  FactorStore store(1);
  store.add(piece_of(1, 0, 0), {});
  store.set_counted(1, {{0, 2}}, kNever);
  EXPECT_FALSE(store.is_complete(1, 5));
  store.add(piece_of(1, 1, 0), {});
  EXPECT_TRUE(store.is_complete(1, 5));
  EXPECT_EQ(store.done(1), 2u);
  EXPECT_TRUE(store.is_complete(2, 1)) << "it is none of this run";
  EXPECT_FALSE(store.counts(2, 0));
  store.set_counted(2, {}, 0);
  EXPECT_FALSE(store.is_complete(2, 1)) << "nothing has come of one that lives";
}

TEST(SfbStore, DropsWhatDoesNotCount) {
  FactorStore store(1);
  store.add(piece_of(1, 4, 0), {});
  store.add(piece_of(1, 5, 0), {});
  store.set_counted(1, {{4, 5}}, 7);
  EXPECT_NE(store.find(1, 4), nullptr);
  EXPECT_EQ(store.find(1, 5), nullptr);
}

TEST(SfbStore, BeginsInTheMiddle) {
  FactorStore store(1);
  store.add(piece_of(1, 4, 0), {});
  store.add(piece_of(1, 3, 0), {});
  store.begin_at(1, 4);
  EXPECT_EQ(store.find(1, 3), nullptr);
  EXPECT_EQ(store.done(1), 5u);
  EXPECT_FALSE(store.is_new(1, 3, 0));
  store.begin_at(2, 4);
  EXPECT_EQ(store.done(2), 4u);
  store.clear();
  EXPECT_EQ(store.done(1), 0u);
}

TEST(SfbStore, GoesOnFromItsState) {
  FactorStore store(1), again(1);
  store.add(piece_of(2, 0, 0), VectorContent::bytes(share(Buffer(5))));
  EXPECT_TRUE(longhaul::testing::copy_state(store, again));
  EXPECT_EQ(again.done(2), 1u);
  EXPECT_EQ(again.pieces(2, 0).at(0).content.shape().size, 5u);
}

}  // namespace
}  // namespace longhaul::sync::sfb
