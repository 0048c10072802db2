#include "longhaul/sync/sfb/store.h"

#include <gtest/gtest.h>

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

TEST(SfbStore, GoesOnFromItsState) {
  FactorStore store(1), again(1);
  store.add(piece_of(2, 0, 0), VectorContent::bytes(share(Buffer(5))));
  Archive out;
  store.state(out);
  const Buffer bytes = out.take();
  Archive in(bytes);
  again.state(in);
  EXPECT_TRUE(in.finish());
  EXPECT_EQ(again.done(2), 1u);
  EXPECT_EQ(again.pieces(2, 0).at(0).content.shape().size, 5u);
}

}  // namespace
}  // namespace longhaul::sync::sfb
