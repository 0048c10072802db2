#include "longhaul/focus/parameters.h"

#include <gtest/gtest.h>

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
  const auto none = choose({point(1, 1, 0.9, 0.7), point(1, 1, 0.5, 0.8)}, {}, "balance");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().what.find("recall 0.900 and precision 0.800"), std::string::npos);
}

// docs/focus.md, invariant 10, over two cheap models of a stream.
TEST(Parameters, WhatIsChosenReachesTheTargetsAndIsNotDominated) {
  const Tracks tracks(1, 0);
  CheapModel all{0.0004, 100, {}}, ten{0.0001, 10, {}};
  std::vector<std::uint32_t> labels;
  for (std::uint64_t seq = 1; seq <= 600; ++seq) {
    const Item item = tracks.item(seq, 10);
    labels.push_back(tracks.label(seq));
    for (CheapModel* model : {&all, &ten})
      model->seen.push_back(
          {seq, item.at.count(), item.values, tracks.scores(seq, item.values, model->specialised)});
  }
  const CheapModel models[] = {all, ten};
  const auto points = evaluate({}, models, labels, {{1, 4, 16}, {0, 0.5}}, 20);
  ASSERT_EQ(points.size(), 12u);
  const Targets targets{0.9, 0.8};
  std::map<std::string, Point> chosen;
  for (const char* policy : {"opt_ingest", "balance", "opt_query"}) {
    const auto one = choose(points, targets, policy);
    ASSERT_TRUE(one) << one.error().what;
    EXPECT_GE(one->estimate.recall, targets.recall);
    EXPECT_GE(one->estimate.precision, targets.precision);
    for (const Point& other : points) {
      const bool reaches =
          other.estimate.recall >= targets.recall && other.estimate.precision >= targets.precision;
      EXPECT_FALSE(reaches && dominates(other, *one)) << policy;
    }
    chosen[policy] = *one;
  }
  EXPECT_LE(chosen["opt_ingest"].ingest_s, chosen["balance"].ingest_s);
  EXPECT_LE(chosen["opt_query"].estimate.gt_calls, chosen["balance"].estimate.gt_calls);
}

TEST(Parameters, DriftIsTheTotalVariation) {
  const double before[] = {5, 5, 0}, now[] = {1, 0, 1};
  EXPECT_DOUBLE_EQ(drift(before, now), 0.5);
  EXPECT_DOUBLE_EQ(drift(before, before), 0);
}

}  // namespace
}  // namespace longhaul::focus
