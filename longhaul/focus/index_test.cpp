#include "longhaul/focus/index.h"

#include <map>

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/focus/ingest.h"
#include "longhaul/focus/log.h"

namespace longhaul::focus {
namespace {

IndexConfig three_classes(bool vote_mean = false) {
  IndexConfig config{.top = 1, .specialised = 3, .classes = 3, .vote_mean = vote_mean};
  return config;
}
// One dimension; the class is certain.
Seen seen(std::uint64_t seq, std::int64_t at_ns, float feature, std::uint32_t cls) {
  Seen one{seq, at_ns, {feature}, {0, 0, 0, 0}};
  one.scores[cls] = 1;
  return one;
}
constexpr Interval kAlways{0, 1'000'000'000'000};
constexpr std::int64_t kSecond = 1'000'000'000;

TEST(Index, ClustersAreFoundUnderTheirClassWithinTheWindow) {
  Index index(three_classes());
  (void)index.add(seen(1, 0, 0, 1), 0, {});
  (void)index.add(seen(2, kSecond / 2, 0.1f, 1), 0, {});
  (void)index.add(seen(3, 9 * kSecond, 0.1f, 1), 0, {});
  (void)index.add(seen(4, 9 * kSecond, 5, 2), 0, {});
  const auto found = index.candidates(1, kAlways);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].count, 3u);
  EXPECT_EQ(found[0].intervals,
            (std::vector<Interval>{{0, kSecond / 2}, {9 * kSecond, 9 * kSecond}}));
  EXPECT_TRUE(index.candidates(1, {2 * kSecond, 3 * kSecond}).empty());
  EXPECT_EQ(index.candidates(2, kAlways).size(), 1u);
  EXPECT_TRUE(index.candidates(0, kAlways).empty());
}

// tests/focus_test.cpp, invariant 6: candidates are as they were; later objects change later ones
// alone.
TEST(Index, WhatAQueryHasTakenDoesNotGrow) {
  Index index(three_classes());
  (void)index.add(seen(1, 0, 0, 1), 0, {});
  const auto before = index.candidates(1, kAlways);
  (void)index.add(seen(2, kSecond, 0, 1), 0, {});
  const auto after = index.candidates(1, kAlways);
  EXPECT_EQ(before[0].count, 1u);
  EXPECT_EQ(before[0].intervals.back().to_ns, 0);
  EXPECT_EQ(after[0].count, 2u);
  EXPECT_EQ(after[0].intervals.back().to_ns, kSecond);
}

// tests/focus_test.cpp, invariants 4 and 6, on random streams: postings only grow, and what was a
// candidate after some objects is one after all, with the same intervals as far as they reach back.
TEST(Index, CandidatesGrowAndKeepWhatTheyWere) {
  // Seeds 0 to 5 are all values of vote_mean and of top together.
  constexpr std::uint64_t kSeeds = longhaul::testing::kGate ? 6 : 10;
  constexpr std::uint64_t kLookEvery = longhaul::testing::kGate ? 11 : 1;  // objects
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random draw(seed, {});
    IndexConfig config = three_classes(seed % 2 == 0);
    config.top = 1 + std::uint32_t(seed % 3);
    config.most_active = 3;
    Index index(config);
    const Interval window{20 * kSecond, 300 * kSecond};
    std::map<std::pair<std::uint32_t, std::uint64_t>, Index::Candidate> before;  // class, cluster
    std::int64_t asof_ns = 0, at_ns = 0;
    for (std::uint64_t seq = 1; seq <= 400; ++seq) {
      at_ns += std::int64_t(1 + draw.below(3)) * kSecond;
      Seen one = seen(seq, at_ns, float(draw.below(6)), std::uint32_t(draw.below(4)));
      for (float& score : one.scores) score += float(draw.uniform());
      ASSERT_TRUE(index.add(one, 0, {}));
      if (seq % kLookEvery != 0) continue;
      std::map<std::pair<std::uint32_t, std::uint64_t>, Index::Candidate> now;
      for (std::uint32_t cls = 0; cls < 3; ++cls)
        for (const auto& candidate : index.candidates(cls, window))
          now.emplace(std::pair(cls, candidate.cluster), candidate);
      for (const auto& [key, then] : before) {
        ASSERT_TRUE(now.contains(key));
        ASSERT_GE(now[key].count, then.count);
        std::vector<Interval> clipped;
        for (const Interval& interval : now[key].intervals)
          if (interval.from_ns <= asof_ns && Interval{interval.from_ns, asof_ns}.meets(window))
            clipped.push_back({interval.from_ns, std::min(interval.to_ns, asof_ns)});
        ASSERT_EQ(clipped, then.intervals) << "object " << seq;
      }
      for (const auto& [key, candidate] : now)
        for (const Interval& interval : candidate.intervals) ASSERT_LE(interval.to_ns, at_ns);
      before = std::move(now);
      asof_ns = at_ns;
    }
    EXPECT_FALSE(before.empty());
  }
}

TEST(Index, TheMeanOfScoresPostsAClusterAgainWhenItChanges) {
  Index mean(three_classes(true)), first(three_classes(false));
  for (std::uint64_t seq = 1; seq <= 5; ++seq)
    for (Index* index : {&mean, &first}) (void)index->add(seen(seq, 0, 0, seq == 1 ? 0 : 2), 0, {});
  EXPECT_EQ(mean.candidates(0, kAlways).size(), 1u);
  EXPECT_EQ(mean.candidates(2, kAlways).size(), 1u);
  EXPECT_TRUE(first.candidates(2, kAlways).empty());
}

TEST(Index, CandidatesAreInOrderOfScoreThenNumber) {
  IndexConfig config = three_classes();
  config.threshold = 0;
  Index index(config);
  for (const float score : {1.f, 3.f, 3.f, 2.f}) {
    Seen one = seen(index.asof() + 1, 0, 0, 1);
    one.scores[1] = score;
    (void)index.add(one, 0, {});
  }
  std::vector<std::uint64_t> order;
  for (const auto& candidate : index.candidates(1, kAlways)) order.push_back(candidate.cluster);
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 3, 0}));
}

TEST(Gaps, TouchingGapsAreOneAndTheyStayBounded) {
  Gaps gaps;
  gaps.add({10, 20});
  gaps.add({40, 50});
  gaps.add({15, 42});
  EXPECT_EQ(gaps.within({0, 100}), (std::vector<Interval>{{10, 50}}));
  EXPECT_EQ(gaps.within({30, 45}), (std::vector<Interval>{{30, 45}}));
  constexpr std::int64_t kGaps = longhaul::testing::kGate ? 1300 : 3000;
  for (std::int64_t i = 0; i < kGaps; ++i) gaps.add({100 + 10 * i, 101 + 10 * i});
  const auto all = gaps.within({0, 1 << 20});
  EXPECT_LE(all.size(), Gaps::kMost);
  EXPECT_EQ(all.back().to_ns, 101 + 10 * (kGaps - 1));  // none is lost
}

TEST(Verdicts, TwoDifferentOnesAreAnErrorAndTheFirstIsKept) {
  Verdicts verdicts(2);
  EXPECT_TRUE(*verdicts.put(7, 2, 1));
  EXPECT_FALSE(*verdicts.put(7, 2, 1));
  EXPECT_FALSE(verdicts.put(7, 2, 3));
  EXPECT_EQ(verdicts.find(7), 1u);
  EXPECT_FALSE(*verdicts.put(8, 1, 1));  // of an older model: void
  EXPECT_EQ(verdicts.find(8), std::nullopt);
}

Item item(std::uint64_t seq) { return {0, seq, Time{std::int64_t(seq) * kSecond}, {1.f}}; }

TEST(Ingest, TheOldestAreDroppedAndAreAGap) {
  Ingest ingest(2);
  ingest.arrived({item(1), item(2), item(3), item(4)});
  EXPECT_EQ(ingest.dropped(), 2u);
  const Ingest::Batch batch = ingest.take();
  ASSERT_EQ(batch.gaps.size(), 1u);
  EXPECT_EQ(batch.gaps[0].last_seq, 2u);
  EXPECT_EQ(batch.gaps[0].interval, (Interval{kSecond, 2 * kSecond}));
  EXPECT_EQ(batch.items.size(), 2u);
}

TEST(Ingest, WhatNeverCameIsAGapAndWhatComesTwiceIsNot) {
  Ingest ingest(10);
  ingest.arrived({item(1), item(4), item(4), item(2)});
  const Ingest::Batch first = ingest.take();
  EXPECT_TRUE(first.gaps.empty());
  EXPECT_EQ(first.items.size(), 1u);
  const Ingest::Batch second = ingest.take();
  ASSERT_EQ(second.gaps.size(), 1u);
  EXPECT_EQ(second.gaps[0].last_seq, 3u);
  EXPECT_EQ(second.items.at(0).seq, 4u);
  EXPECT_FALSE(ingest.has_work());
}

// A log of what was indexed, as a node writes it.
std::vector<Bytes> log_of(Index& index) {
  std::vector<Bytes> log;
  for (std::uint64_t seq = 1; seq <= 6; ++seq) {
    LogRecord record;
    LoggedItem logged{.seen = seen(seq, std::int64_t(seq), float(seq % 2), seq % 2), .values = {}};
    logged.feature = halves_of(logged.seen.feature);
    const auto added = index.add(logged.seen, 0, std::vector<float>{float(seq)});
    logged.cluster = added->cluster;
    if (added->begun) logged.values = {float(seq)};
    record.items.push_back(logged);
    if (seq == 3) record.verdicts.push_back({0, 1, 1});
    log.push_back(share(to_wire(record)));
  }
  return log;
}
Buffer state_of(Index& index) {
  Archive ar;
  index.state(ar);
  return ar.take();
}

// tests/focus_test.cpp, invariant 7.
TEST(Log, ReplayedOnceOrTwiceItIsTheSameIndex) {
  Index index(three_classes()), again(three_classes());
  Verdicts verdicts(1);
  KeptModels models;
  const auto log = log_of(index);
  EXPECT_EQ(*replay(log, 0, again, verdicts, models), 6u);
  EXPECT_EQ(state_of(index), state_of(again));
  EXPECT_EQ(verdicts.find(0), 1u);
  EXPECT_EQ(*replay(log, 0, again, verdicts, models), 6u);
  EXPECT_EQ(state_of(index), state_of(again));
  std::uint64_t objects = 0;
  for (std::uint64_t c = 0; c < again.clusters(); ++c) objects += again.count(c);
  EXPECT_EQ(objects, 6u);
}

TEST(Log, ATornLastRecordIsLeftOut) {
  Index index(three_classes()), again(three_classes());
  Verdicts verdicts(1);
  KeptModels models;
  auto log = log_of(index);
  log.back() = share({log.back()->begin(), log.back()->begin() + 20});
  EXPECT_EQ(*replay(log, 0, again, verdicts, models), 5u);
  EXPECT_EQ(again.asof(), 5u);
  std::swap(log[2], log.back());
  Index damaged(three_classes());
  EXPECT_FALSE(replay(log, 0, damaged, verdicts, models));
}

// Clusters of before stay as they are; both are searched.
TEST(Index, AdoptedParametersHoldForObjectsFromThenOn) {
  Index index(three_classes());
  ASSERT_TRUE(index.add(seen(1, 1, 0, 0), 0, {}));
  const auto before = index.candidates(2, {0, 100});
  index.adopt({.cheap = 1, .K = 1, .specialised = 2, .T = 0.25});  // class 2 is OTHER from now on
  EXPECT_EQ(index.config().cheap, 1u);
  Seen two = seen(2, 2, 0, 0);
  two.scores = {0, 0, 1};
  const auto added = index.add(two, 0, std::vector<float>{7});
  ASSERT_TRUE(added && added->begun);  // although its feature is that of the first
  EXPECT_EQ(index.candidates(2, {0, 100}).size(), before.size() + 1);
  EXPECT_EQ(index.generations(), 2u);
  Archive saved;
  index.state(saved);
  const Buffer bytes = saved.take();
  Index again(three_classes());
  Archive loaded{bytes};
  again.state(loaded);
  ASSERT_TRUE(loaded.finish());
  EXPECT_EQ(state_of(again), bytes);
  IndexConfig other = three_classes();
  other.threshold = 3;
  Index refused(other);
  Archive wrong{bytes};
  refused.state(wrong);
  EXPECT_FALSE(wrong.finish());
}

TEST(Log, AdoptedParametersAreAdoptedAgain) {
  Index index(three_classes()), again(three_classes());
  Verdicts verdicts(1);
  KeptModels models;
  auto log = log_of(index);
  const Chosen chosen{.cheap = 0, .K = 2, .specialised = 3, .T = 0};
  index.adopt(chosen);
  log.push_back(share(to_wire(
      LogRecord{.models = {}, .adopted = {chosen}, .gaps = {}, .items = {}, .verdicts = {}})));
  EXPECT_EQ(*replay(log, 0, again, verdicts, models), 7u);
  EXPECT_EQ(state_of(index), state_of(again));
  const Chosen none{.cheap = 0, .K = 0, .specialised = 3, .T = 0};
  const Bytes bad = share(
      to_wire(LogRecord{.models = {}, .adopted = {none}, .gaps = {}, .items = {}, .verdicts = {}}));
  EXPECT_FALSE(replay_record(*bad, 8, 0, again, verdicts, models));
}

TEST(Log, ALogOfOtherParametersIsRefused) {
  Index index(three_classes());
  Verdicts verdicts(1);
  KeptModels models;
  const auto log = log_of(index);
  IndexConfig other = three_classes();
  other.threshold = 0;
  Index no_clusters(other);
  EXPECT_FALSE(replay(log, 0, no_clusters, verdicts, models));
  other.specialised = 2;
  Index two(other);
  EXPECT_FALSE(replay(log, 0, two, verdicts, models));
}

// --- clustering

std::vector<std::uint64_t> clusters_of(Clustering& clustering, std::vector<float> values) {
  std::vector<std::uint64_t> clusters;
  for (const float value : values) clusters.push_back(clustering.add({&value, 1}).cluster);
  return clusters;
}
using Clusters = std::vector<std::uint64_t>;

// tests/focus_test.cpp, invariant 1.
TEST(Clustering, GoldenInOneDimension) {
  Clustering clustering(0.5, 100);
  EXPECT_EQ(clusters_of(clustering, {0.f, 0.1f, 0.9f, 1.f, 5.f}), (Clusters{0, 0, 1, 1, 2}));
  EXPECT_NEAR(clustering.mean(0).at(0), 0.05, 1e-7);
  EXPECT_NEAR(clustering.mean(1).at(0), 0.95, 1e-7);
  EXPECT_NEAR(clustering.mean(2).at(0), 5, 1e-7);
  EXPECT_EQ(clustering.size(), 3u);
}

TEST(Clustering, GoldenWithFewActiveClusters) {
  Clustering one(0.5, 1);
  EXPECT_EQ(clusters_of(one, {0.f, 0.1f, 0.9f, 1.f, 5.f}), (Clusters{0, 0, 1, 1, 2}));
  Clustering thrashes(0.5, 1);
  EXPECT_EQ(clusters_of(thrashes, {0.f, 0.9f, 0.1f, 1.f, 5.f}), (Clusters{0, 1, 2, 3, 4}));
  Clustering two(0.5, 2);
  EXPECT_EQ(clusters_of(two, {0.f, 0.9f, 0.1f, 1.f, 5.f}), (Clusters{0, 1, 0, 1, 2}));
}

TEST(Clustering, RetiresTheOneJoinedLongestAgo) {
  Clustering clustering(0.5, 2);
  (void)clusters_of(clustering, {0.f, 3.f, 0.f, 6.f});  // 3 has not been joined since 0 was
  EXPECT_TRUE(clustering.mean(1).empty());
  EXPECT_EQ(clusters_of(clustering, {0.f, 3.f}), (Clusters{0, 3}));
}

TEST(Clustering, WithoutADistanceEveryVectorBeginsACluster) {
  Clustering clustering(0, 1);
  EXPECT_EQ(clusters_of(clustering, {1.f, 1.f, 1.f}), (Clusters{0, 1, 2}));
}

TEST(Clustering, SavedAndLoadedItGoesOn) {
  Clustering saved(0.5, 2), loaded(0.5, 2);
  (void)clusters_of(saved, {0.f, 0.9f, 0.1f});
  ASSERT_TRUE(longhaul::testing::copy_state(saved, loaded));
  EXPECT_EQ(clusters_of(saved, {1.f, 5.f, 0.1f}), clusters_of(loaded, {1.f, 5.f, 0.1f}));
}

}  // namespace
}  // namespace longhaul::focus
