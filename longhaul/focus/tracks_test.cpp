#include "longhaul/focus/tracks.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/focus/parameters.h"

namespace longhaul::focus {
namespace {

constexpr std::uint64_t kObjects = 12000, kLeast = 30;

struct Stream {
  std::vector<Seen> seen;
  std::vector<std::uint32_t> labels;
};

Stream stream_of(std::uint64_t seed, std::uint64_t objects = kObjects,
                 std::uint32_t specialised = Tracks::kClasses) {
  const Tracks tracks(seed, 0);
  Stream stream;
  for (std::uint64_t seq = 1; seq <= objects; ++seq) {
    const Item item = tracks.item(seq, 10);
    stream.seen.push_back(
        {seq, item.at.count(), item.values, tracks.scores(seq, item.values, specialised)});
    stream.labels.push_back(tracks.label(seq));
  }
  return stream;
}

Estimate with(const Stream& stream, double T, std::uint32_t K, bool vote_mean = false,
              std::uint32_t M = 100, std::uint32_t specialised = Tracks::kClasses) {
  IndexConfig config;
  config.top = K;
  config.threshold = T;
  config.most_active = M;
  config.specialised = specialised;
  config.vote_mean = vote_mean;
  return estimate(config, stream.seen, stream.labels, kLeast);
}

struct Row {
  double T;
  std::uint32_t K;
  double clusters, recall, precision, calls;
};
constexpr Row kTable[] = {{0, 1, 12000, .57, 1, 148},   {0, 4, 12000, .83, 1, 519},
                          {0, 8, 12000, .92, 1, 1000},  {.5, 1, 400, .60, .87, 5.0},
                          {.5, 4, 400, .87, .96, 17.1}, {.5, 8, 400, .96, 1, 33.1},
                          {2, 4, 98, .86, .90, 4.3}};

void expect_table(std::uint64_t streams) {
  std::vector<Estimate> means(std::size(kTable));
  for (std::uint64_t seed = 1; seed <= streams; ++seed) {
    const Stream stream = stream_of(seed);
    for (std::size_t i = 0; i < means.size(); ++i) {
      const Estimate one = with(stream, kTable[i].T, kTable[i].K);
      const double near = kTable[i].T == 2 ? 25 : 0;
      EXPECT_NEAR(double(one.clusters), kTable[i].clusters, near);
      means[i].recall += one.recall / double(streams);
      means[i].precision += one.precision / double(streams);
      means[i].gt_calls += one.gt_calls / double(streams);
    }
  }
  for (std::size_t i = 0; i < means.size(); ++i) {
    const Row& row = kTable[i];
    SCOPED_TRACE(::testing::Message() << "T " << row.T << " K " << row.K);
    EXPECT_NEAR(means[i].recall, row.recall, .06);
    EXPECT_NEAR(means[i].precision, row.precision, .10);
    EXPECT_NEAR(means[i].gt_calls, row.calls, .10 * row.calls);
  }
}

// docs/focus.md, invariant 12.
TEST(TracksNightly, TheTableHoldsInTheMeanOfEightStreams) { expect_table(8); }

// docs/focus.md, invariants 11 and 4, on one stream.
TEST(Tracks, OneClusterATrackHoweverFewAreActive) {
  const Stream stream = stream_of(1, 3600);
  for (const std::uint32_t M : {4u, 100u}) EXPECT_EQ(with(stream, .5, 4, false, M).clusters, 120u);
}

TEST(Tracks, RecallAndCandidatesGrowWithK) {
  const Stream stream = stream_of(2, 2400);
  for (const bool vote_mean : {false, true}) {
    Estimate before;
    for (const std::uint32_t K : {1u, 4u, 8u, 100u}) {
      const Estimate now = with(stream, .5, K, vote_mean);
      EXPECT_GE(now.recall, before.recall);
      EXPECT_GE(now.gt_calls, before.gt_calls);
      before = now;
    }
    EXPECT_EQ(before.recall, 1);  // every cluster is a candidate
    EXPECT_EQ(before.gt_calls, 80);
  }
}

// docs/focus.md, invariants 2 and 3.
TEST(Tracks, WithoutClustersRecallIsTheShareInTheTopK) {
  const Stream stream = stream_of(3, 1200);
  const Estimate found = with(stream, 0, 4);
  EXPECT_EQ(found.clusters, 1200u);
  EXPECT_EQ(found.precision_of_answers, 1);
  std::map<std::uint32_t, std::pair<double, double>> by_class;  // in the top 4, all
  for (std::size_t i = 0; i < stream.seen.size(); ++i) {
    const auto& scores = stream.seen[i].scores;
    const auto top = top_classes(std::vector<double>(scores.begin(), scores.end()), 4);
    by_class[stream.labels[i]].first += double(std::ranges::count(top, stream.labels[i]));
    ++by_class[stream.labels[i]].second;
  }
  double recall = 0, classes = 0;
  for (const auto& [cls, counts] : by_class) {
    if (counts.second < kLeast) continue;
    recall += counts.first / counts.second;
    ++classes;
  }
  EXPECT_NEAR(found.recall, recall / classes, 1e-12);
  EXPECT_EQ(with(stream, 0, 101).recall, 1);
}

// docs/focus.md, invariant 9: the classes beyond the ten specialised ones are found through OTHER.
TEST(Tracks, ARareClassIsFoundThroughOther) {
  const Stream stream = stream_of(4, 2400, 10);
  IndexConfig config;
  config.specialised = 10;
  Index index(config);
  for (const Seen& seen : stream.seen) (void)index.add(seen, 0, {});
  for (std::uint32_t cls = 10; cls < Tracks::kClasses; ++cls)
    EXPECT_EQ(index.posted_under(cls), 10u);
  std::map<std::uint32_t, std::uint64_t> counts;
  for (const std::uint32_t label : stream.labels) ++counts[label];
  const auto rare =
      std::ranges::find_if(counts, [](const auto& c) { return c.first >= 10 && c.second >= 30; });
  ASSERT_NE(rare, counts.end());
  std::uint64_t found = 0;
  for (const auto& one : index.candidates(rare->first, {0, 1'000'000'000'000}))
    if (stream.labels[index.representative(one.cluster).seq - 1] == rare->first) found += one.count;
  EXPECT_GE(double(found), .8 * double(rare->second));
}

TEST(Tracks, TheCheapModelErrsAsItsPageSays) {
  const Stream stream = stream_of(5, 6000);
  double first = 0, fourth = 0;
  for (std::size_t i = 0; i < stream.seen.size(); ++i) {
    const auto& scores = stream.seen[i].scores;
    const auto top = top_classes(std::vector<double>(scores.begin(), scores.end()), 4);
    first += top[0] == stream.labels[i];
    fourth += double(std::ranges::count(top, stream.labels[i]));
  }
  EXPECT_NEAR(first / double(stream.seen.size()), .52, .12);
  EXPECT_NEAR(fourth / double(stream.seen.size()), .81, .12);
}

TEST(Tracks, TheLearnerAnswersBothModels) {
  TracksLearner learner(7, 10);
  const Tracks tracks(7, 2);
  const Item item = tracks.item(5, 10);
  const auto cheap = learner.step(Infer{Infer::Model::cheap, {item, item}});
  ASSERT_TRUE(cheap);
  EXPECT_EQ(cheap->outputs.size(), 2 * (Tracks::kDimensions + 11));
  const auto accurate = learner.step(Infer{Infer::Model::accurate, {item}});
  ASSERT_TRUE(accurate);
  EXPECT_EQ(accurate->outputs, std::vector<float>{float(tracks.label(5))});
  EXPECT_FALSE(learner.step(LocalStep{}));
  EXPECT_FALSE(learner.step(Infer{Infer::Model::cheap, {Item{}}}));
}

}  // namespace
}  // namespace longhaul::focus
