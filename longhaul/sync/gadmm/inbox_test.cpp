#include "longhaul/sync/gadmm/inbox.h"

#include <gtest/gtest.h>

namespace longhaul::sync::gadmm {
namespace {

using Kind = Inbox::Kind;

TEST(Inbox, TakesOneVectorOfAKindAPeerAndAnIteration) {
  Inbox inbox;
  EXPECT_TRUE(inbox.admit(Kind::model, 1, 4));
  EXPECT_FALSE(inbox.admit(Kind::model, 1, 4));
  EXPECT_TRUE(inbox.admit(Kind::model, 2, 4));
  EXPECT_TRUE(inbox.admit(Kind::model, 1, 5));
  EXPECT_TRUE(inbox.admit(Kind::hello, 1, 4));
  EXPECT_FALSE(inbox.has(Kind::model, 1, 4));
  inbox.keep({.kind = Kind::model, .iteration = 4}, 1, {});
  ASSERT_TRUE(inbox.has(Kind::model, 1, 4));
  inbox.take(Kind::model, 1, 4);
  EXPECT_FALSE(inbox.has(Kind::model, 1, 4));
  EXPECT_FALSE(inbox.admit(Kind::model, 1, 4)) << "still known, though it is taken";
  inbox.pass(5);
  EXPECT_TRUE(inbox.admit(Kind::model, 1, 4)) << "the owner knows that it is over";
  EXPECT_FALSE(inbox.admit(Kind::model, 1, 5));
}

TEST(Inbox, TakesOneJoinOfAPeer) {
  Inbox inbox;
  EXPECT_TRUE(inbox.admit(Kind::join, 1, 4));
  EXPECT_FALSE(inbox.admit(Kind::join, 1, 6));
  EXPECT_TRUE(inbox.joins().empty());
  inbox.keep({.kind = Kind::join, .iteration = 4, .steps = 3}, 1, {});
  inbox.pass(9);
  EXPECT_EQ(inbox.joins(), (std::map<Rank, Round>{{1, 4}}));
  EXPECT_EQ(inbox.take(Kind::join, 1, 4).steps, 3u);
  EXPECT_FALSE(inbox.admit(Kind::join, 1, 4));
  inbox.clear();
  EXPECT_TRUE(inbox.admit(Kind::join, 1, 4));
}

}  // namespace
}  // namespace longhaul::sync::gadmm
