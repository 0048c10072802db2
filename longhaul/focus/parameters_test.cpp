#include "longhaul/focus/parameters.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/focus/tracks.h"

namespace longhaul::focus {
namespace {

Point point(double ingest_s, double calls, double recall = 1, double precision = 1) {
  Point p{0, 1, 0.5, ingest_s, {}};
  p.estimate.gt_calls = calls;
  p.estimate.recall = recall;
  p.estimate.precision = precision;
  return p;
}

TEST(Parameters, PoliciesTakeTheEndsAndTheMiddle) {
  const std::vector<Point> points = {point(1, 100), point(10, 10), point(4, 30), point(11, 11),
                                     point(0.1, 1, 0.9)};
  EXPECT_EQ(choose(points, {}, "opt_ingest")->ingest_s, 1);
  EXPECT_EQ(choose(points, {}, "opt_query")->estimate.gt_calls, 10);
  EXPECT_EQ(choose(points, {}, "balance")->ingest_s, 4);
}

TEST(Parameters, TargetsOutOfReachAreRefusedWithTheBestThereIs) {
  EXPECT_TRUE(
      says(failure(choose({point(1, 1, 0.9, 0.7), point(1, 1, 0.5, 0.8)}, {}, "balance")).what,
           "recall 0.900 and precision 0.800"));
}

// tests/focus_test.cpp, invariant 10, over two cheap models of a stream.
TEST(Parameters, WhatIsChosenReachesTheTargetsAndIsNotDominated) {
  const Tracks tracks(1, 0);
  CheapModel all{0.0004, 100, {}}, ten{0.0001, 10, {}};
  std::vector<std::uint32_t> labels;
  std::vector<std::uint64_t> tracks_of_objects;
  for (std::uint64_t seq = 1; seq <= 600; ++seq) {
    const Item item = tracks.item(seq, 10);
    tracks_of_objects.push_back(Tracks::track_of(seq));
    labels.push_back(tracks.label(seq));
    for (CheapModel* model : {&all, &ten})
      model->seen.push_back(
          {seq, item.at.count(), item.values, tracks.scores(seq, item.values, model->specialised)});
  }
  const CheapModel models[] = {all, ten};
  const auto points = evaluate({}, models, labels, tracks_of_objects, {{1, 4, 16}, {0, 0.5}}, 20);
  ASSERT_EQ(points.size(), 12u);
  const Targets targets{0.85, 0.7};
  std::map<std::string, Point> chosen;
  for (const char* policy : {"opt_ingest", "balance", "opt_query"}) {
    const auto one = good(choose(points, targets, policy));
    const Estimate& on_sample = one->estimate;
    EXPECT_GT(on_sample.recall_error, 0);
    EXPECT_GE(on_sample.recall - 1.64 * on_sample.recall_error, targets.recall);
    EXPECT_GE(on_sample.precision - 1.64 * on_sample.precision_error, targets.precision);
    for (const Point& other : points)
      EXPECT_FALSE(reaches(other.estimate, targets) && dominates(other, *one)) << policy;
    chosen[policy] = *one;
  }
  EXPECT_LE(chosen["opt_ingest"].ingest_s, chosen["balance"].ingest_s);
  EXPECT_LE(chosen["opt_query"].estimate.gt_calls, chosen["balance"].estimate.gt_calls);
}

TEST(Parameters, WhatIsWithinItsErrorOfATargetIsNotTaken) {
  Point sure = point(1, 50, 0.96), unsure = point(1, 10, 0.96);
  sure.estimate.recall_error = 0.005;
  unsure.estimate.recall_error = 0.02;
  EXPECT_EQ(choose({sure, unsure}, {}, "balance")->estimate.gt_calls, 50);
  EXPECT_EQ(choose({sure, unsure}, {.margin = 0.5}, "balance")->estimate.gt_calls, 10);
  sure.estimate.precision_error = 0.04;
  const Error none = failure(choose({sure, unsure}, {}, "balance"));
  EXPECT_TRUE(says(none.what,
                   "recall 0.952 and precision 1.000, each less 1.640 of its "
                   "standard errors"));
}

Seen of_class(std::uint64_t seq, std::uint32_t cls) {
  Seen seen{seq, 0, {0}, std::vector<float>(4, 0)};
  seen.scores[cls] = 1;
  return seen;
}

// One cluster of three tracks, the first and the last of class 1. Without the first track the
// second one's object is the representative: recall is 1/2, 1 and 1/2, precision 1/4, 1 and 1/4.
TEST(Parameters, TheErrorIsThatOfLeavingOutOneTrackAtATime) {
  IndexConfig config{.top = 3, .specialised = 3, .classes = 3};
  const std::vector<std::uint32_t> labels = {1, 1, 2, 2, 1, 1};
  const std::vector<std::uint64_t> tracks = {7, 7, 8, 8, 9, 9};
  std::vector<Seen> seen;
  for (std::size_t i = 0; i < labels.size(); ++i) seen.push_back(of_class(i + 1, labels[i]));
  const Estimate one = estimate(config, seen, labels, 1, tracks);
  EXPECT_DOUBLE_EQ(one.recall, 0.5);
  EXPECT_DOUBLE_EQ(one.precision, (4. / 6 + 0) / 2);
  EXPECT_NEAR(one.recall_error, 1. / 3, 1e-12);
  EXPECT_NEAR(one.precision_error, 0.5, 1e-12);
  EXPECT_EQ(estimate(config, seen, labels, 1).recall_error, 0);  // tracks are not known
}

// T = 0: no cluster depends on what is left out, so that the sample without a track says the same.
TEST(Parameters, TheErrorIsTheJackknifesWhereClustersAreObjects) {
  constexpr std::uint64_t kTracks = longhaul::testing::kGate ? 8 : 12;
  const Tracks stream(2, 0);
  std::vector<Seen> seen;
  std::vector<std::uint32_t> labels;
  std::vector<std::uint64_t> tracks;
  for (std::uint64_t seq = 1; seq <= 30 * kTracks; ++seq) {
    const Item item = stream.item(seq, 10);
    seen.push_back({seq, 0, item.values, stream.scores(seq, item.values, Tracks::kClasses)});
    labels.push_back(stream.label(seq));
    tracks.push_back(Tracks::track_of(seq));
  }
  IndexConfig config{.threshold = 0};
  for (const bool vote_mean : {false, true}) {
    config.vote_mean = vote_mean;
    std::vector<double> recalls;
    for (std::uint64_t track = 0; track < kTracks; ++track) {
      std::vector<Seen> rest;
      std::vector<std::uint32_t> rest_labels;
      for (std::size_t i = 0; i < seen.size(); ++i) {
        if (tracks[i] == track) continue;
        rest.push_back(seen[i]);
        rest_labels.push_back(labels[i]);
      }
      recalls.push_back(estimate(config, rest, rest_labels, 1).recall);
    }
    const double mean = std::accumulate(recalls.begin(), recalls.end(), 0.0) / double(kTracks);
    double squares = 0;
    for (const double recall : recalls) squares += (recall - mean) * (recall - mean);
    const Estimate one = estimate(config, seen, labels, 1, tracks);
    EXPECT_GT(one.recall_error, 0);
    EXPECT_NEAR(one.recall_error, std::sqrt(squares * double(kTracks - 1) / double(kTracks)),
                1e-12);
  }
}

TEST(Parameters, DriftIsTheTotalVariation) {
  const double before[] = {5, 5, 0}, now[] = {1, 0, 1};
  EXPECT_DOUBLE_EQ(drift(before, now), 0.5);
  EXPECT_DOUBLE_EQ(drift(before, before), 0);
}

}  // namespace
}  // namespace longhaul::focus
