#include "longhaul/core/sample_ledger.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

SampleCounts after(SampleLedger& ledger, std::vector<std::pair<Rank, Record>> records) {
  for (const auto& [rank, record] : records) EXPECT_TRUE(ledger.take(rank, record)) << record.name;
  return ledger.counts();
}

TEST(SampleLedger, LeavesOtherRecordsAlone) {
  SampleLedger ledger;
  EXPECT_FALSE(ledger.take(0, {"wait_s", 0, 1}));
  EXPECT_FALSE(ledger.take(0, {"samples_used", 0, -1}));
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
  Archive out;
  ledger.state(out);
  const Buffer bytes = out.take();
  Archive in(bytes);
  SampleLedger again;
  again.state(in);
  ASSERT_TRUE(in.finish());
  EXPECT_EQ(after(again, {{1, {"samples_used", 0, 1}}}).used, 8u);
}

}  // namespace
}  // namespace longhaul
