#include "longhaul/core/sample_ledger.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"

namespace longhaul {
namespace {

SampleCounts after(SampleLedger& ledger, std::vector<std::pair<Rank, Record>> records) {
  for (const auto& [rank, record] : records)
    EXPECT_TRUE(ledger.take(Time{0}, rank, record)) << record.name;
  return ledger.counts();
}

SampleLedger saved_and_loaded(SampleLedger& ledger) {
  SampleLedger again;
  EXPECT_TRUE(longhaul::testing::copy_state(ledger, again));
  return again;
}

TEST(SampleLedger, LeavesOtherRecordsAlone) {
  SampleLedger ledger;
  EXPECT_FALSE(ledger.take(Time{0}, 0, {"wait_s", 0, 1}));
  EXPECT_FALSE(ledger.take(Time{0}, 0, {"samples_used", 0, -1}));
  EXPECT_EQ(ledger.counts().computed, 0u);
}

TEST(SampleLedger, WithoutAWordOfUseHasNoCount) {
  SampleLedger ledger;
  const SampleCounts counts = after(ledger, {{0, {"samples_computed", 0, 8}}});
  EXPECT_EQ(counts.computed, 8u);
  EXPECT_FALSE(counts.used);
}

// All that are left say of a lost node that its contribution counts.
TEST(SampleLedger, CountsAContributionOnce) {
  SampleLedger ledger;
  after(ledger, {{1, {"samples_computed", 3, 8}}, {1, {"samples_given", 3, 8}}});
  ledger.node_lost(1);
  EXPECT_EQ(ledger.counts().lost, 8u);
  const SampleCounts counts =
      after(ledger, {{0, {"samples_used", 3, 1}}, {2, {"samples_used", 3, 1}}});
  EXPECT_EQ(counts.used, 8u);
  EXPECT_EQ(counts.lost, 0u);
  EXPECT_EQ(counts.unused(), 0u);
}

TEST(SampleLedger, OfAnotherRoundIsNotUsed) {
  SampleLedger ledger;
  const SampleCounts counts = after(
      ledger,
      {{1, {"samples_computed", 3, 8}}, {1, {"samples_given", 3, 8}}, {0, {"samples_used", 2, 1}}});
  EXPECT_EQ(counts.used, 0u);
  EXPECT_EQ(counts.unused(), 8u);
}

TEST(SampleLedger, TakesBackWhatAServerLost) {
  SampleLedger ledger;
  const SampleCounts counts = after(ledger, {{1, {"samples_computed", 0, 8}},
                                             {0, {"push_came", 4, 1}},
                                             {0, {"push_used", 1, 1}},
                                             {0, {"push_came", 3, 1}},
                                             {0, {"push_used", 2, 1}},
                                             {0, {"push_came", 1, 1}},
                                             {0, {"push_discarded", 2, 1}},
                                             {2, {"rolled_back", 1, 0}}});
  EXPECT_EQ(counts.used, 4u);
  EXPECT_EQ(counts.lost, 3u);
  EXPECT_EQ(counts.unused(), 1u);
  ledger.node_lost(1);
  EXPECT_EQ(ledger.counts().lost, 4u);
}

TEST(SampleLedger, GoesOnAlikeWhenLoaded) {
  SampleLedger ledger;
  after(ledger, {{1, {"samples_computed", 0, 8}}, {1, {"samples_given", 0, 8}}});
  SampleLedger again = saved_and_loaded(ledger);
  EXPECT_EQ(after(again, {{1, {"samples_used", 0, 1}}}).used, 8u);
}

// Over sockets each node has a ledger of its own records.
TEST(SampleLedger, JoinsWhatNodesKept) {
  SampleLedger first, second;
  after(
      first,
      {{0, {"samples_computed", 3, 8}}, {0, {"samples_given", 3, 8}}, {0, {"samples_used", 3, 0}}});
  after(second, {{1, {"samples_computed", 3, 6}},
                 {1, {"samples_given", 3, 6}},
                 {1, {"samples_computed", 4, 5}}});
  const SampleCounts dead = SampleLedger::joined({{0, first}, {1, second, true}}).counts();
  EXPECT_EQ(dead.computed, 19u);
  EXPECT_EQ(dead.used, 8u);
  EXPECT_EQ(dead.lost, 11u);
  after(first, {{0, {"samples_used", 3, 1}}, {0, {"samples_used", 3, 1}}});
  for (int again = 0; again < 2; ++again) {  // it comes back, and that is not counted anew
    const SampleCounts heard = SampleLedger::joined({{0, first}, {1, second, again == 0}}).counts();
    EXPECT_EQ(heard.used, 14u);
    EXPECT_EQ(heard.lost, 5u);
    EXPECT_EQ(heard.unused(), 0u);
    second.node_lost(1);
    after(second, {});
  }
  after(second, {{1, {"samples_computed", 9, 2}}});
  const SampleCounts back = SampleLedger::joined({{0, first}, {1, second}}).counts();
  EXPECT_EQ(back.lost, 5u);
  EXPECT_EQ(back.unused(), 2u);
}

// A server's commits are in its ledger, what they are of in the workers', the roll-back in the
// ledger of the one that went on.
TEST(SampleLedger, JoinsServersThatFollowedEachOther) {
  SampleLedger worker, first, second;
  after(worker, {{2, {"samples_computed", 0, 9}}});
  const auto commit = [](SampleLedger& server, double at_s, Round samples, Round version) {
    const auto at = Time(std::int64_t(at_s * 1e9));
    server.take(at, 0, {"push_came", samples, 2});
    server.take(at, 0, {"push_used", version, 2});
  };
  commit(first, 1, 2, 1);
  commit(first, 2, 3, 2);
  second.take(Time(std::chrono::seconds(3)), 1, {"rolled_back", 1, 0});
  commit(second, 4, 4, 2);
  commit(first, 9, 1, 3);  // it is the server again, after a roll-back that was long before
  for (int loaded = 0; loaded < 2; ++loaded) {
    const SampleCounts counts =
        SampleLedger::joined({{0, first}, {1, second}, {2, worker}}).counts();
    EXPECT_EQ(counts.used, 7u);
    EXPECT_EQ(counts.lost, 2u);
    EXPECT_EQ(counts.lost + *counts.used + counts.unused(), counts.computed);
    for (SampleLedger* ledger : {&worker, &first, &second}) *ledger = saved_and_loaded(*ledger);
  }
}

}  // namespace
}  // namespace longhaul
