#include "longhaul/flow/trace.h"

#include <gtest/gtest.h>

namespace longhaul::flow {
namespace {

using Kind = Trace::Kind;

std::vector<TraceSegment> stretches(const Trace& trace, std::size_t count,
                                    std::uint32_t stream = 0) {
  EXPECT_TRUE(trace.check());
  std::vector<TraceSegment> all = {first_segment(trace, 7, stream)};
  while (all.size() < count) all.push_back(next_segment(trace, 7, stream, all.back()));
  return all;
}

double until_s(const TraceSegment& s) { return double(s.until.count()) * 1e-9; }

// The mean of the first stretches, weighted with their durations.
double mean(const std::vector<TraceSegment>& all) {
  double sum = 0, last = 0;
  for (const TraceSegment& s : all) {
    sum += s.value * (until_s(s) - last);
    last = until_s(s);
  }
  return sum / last;
}

TEST(Trace, StepsAreAsWrittenAndBeginAnew) {
  Trace trace{.kind = Kind::steps, .at = {0, 10, 30}, .values = {5, 6, 7}};
  auto all = stretches(trace, 3);
  EXPECT_EQ(all[1].value, 6);
  EXPECT_DOUBLE_EQ(until_s(all[1]), 30);
  EXPECT_EQ(all[2].until, std::chrono::nanoseconds::max());
  trace.repeat_s = 40;
  all = stretches(trace, 5);
  EXPECT_DOUBLE_EQ(until_s(all[2]), 40);
  EXPECT_EQ(all[4].value, 6);
  EXPECT_DOUBLE_EQ(until_s(all[4]), 70);
}

// Asked for a moment, or walked to: the same.
TEST(Trace, StepsAreFoundByTheirTime) {
  using namespace std::chrono_literals;
  Trace trace{.kind = Kind::steps, .at = {0, 0.5, 3}, .values = {5, 6, 7}};
  EXPECT_EQ(trace.steps_at(0s), 5);
  EXPECT_EQ(trace.steps_at(500ms - 1ns), 5);
  EXPECT_EQ(trace.steps_at(1h), 7);
  trace.repeat_s = 4;
  std::chrono::nanoseconds begin{0};
  for (const TraceSegment& s : stretches(trace, 10)) {
    EXPECT_EQ(trace.steps_at(begin), s.value) << s.number;
    EXPECT_EQ(trace.steps_at(s.until - 1ns), s.value) << s.number;
    begin = s.until;
  }
}

TEST(Trace, RedrawsAreUniform) {
  const Trace trace{.kind = Kind::redraw, .low = 20, .high = 155, .every_s = 180};
  const auto all = stretches(trace, 4000);
  double least = 1e9, most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_DOUBLE_EQ(until_s(all[i]), 180.0 * double(i + 1));
    least = std::min(least, all[i].value);
    most = std::max(most, all[i].value);
  }
  EXPECT_NEAR(mean(all), 87.5, 2);
  EXPECT_NEAR(least, 20, 0.3);
  EXPECT_NEAR(most, 155, 0.3);
}

TEST(Trace, MarkovStatesLastExponentialTimes) {
  const Trace trace{.kind = Kind::markov, .low = 1, .high = 5, .low_s = 10, .high_s = 30};
  const auto all = stretches(trace, 8000);
  EXPECT_EQ(all[0].value, 5);
  EXPECT_EQ(all[1].value, 1);
  EXPECT_NEAR(mean(all), 4, 0.1);
  double sum = 0, squares = 0;
  for (std::size_t i = 2; i < all.size(); i += 2) {
    const double lasted = until_s(all[i]) - until_s(all[i - 1]);
    sum += lasted;
    squares += lasted * lasted;
  }
  const double n = double(all.size() / 2 - 1);
  EXPECT_NEAR(sum / n, 30, 1.5);
  EXPECT_NEAR(squares / n, 2 * 30 * 30, 150);  // of an exponential time
}

TEST(Trace, ADayHasItsPeak) {
  const Trace trace{
      .kind = Kind::day, .low = 10, .high = 30, .every_s = 600, .period_s = 86400, .peak_s = 21600};
  const auto all = stretches(trace, 288);
  EXPECT_NEAR(mean(all), 20, 1e-6);
  EXPECT_NEAR(all[36].value, 30, 0.01);
  EXPECT_NEAR(all[108].value, 10, 0.01);
  EXPECT_NEAR(all[36 + 144].value, 30, 0.01);
}

TEST(Trace, StreamsDiffer) {
  const Trace trace{.kind = Kind::redraw, .low = 0, .high = 1};
  EXPECT_NE(first_segment(trace, 7, 0).value, first_segment(trace, 7, 1).value);
  EXPECT_EQ(first_segment(trace, 7, 1).value, first_segment(trace, 7, 1).value);
}

TEST(Trace, SaysWhatIsWrongWithIt) {
  EXPECT_FALSE(Trace{}.check());
  EXPECT_FALSE((Trace{.at = {1}, .values = {1}}).check());
  EXPECT_FALSE((Trace{.at = {0, 2, 2}, .values = {1, 2, 3}}).check());
  EXPECT_FALSE((Trace{.at = {0, 2}, .values = {1, -2}}).check());
  EXPECT_FALSE((Trace{.at = {0, 2}, .values = {1, 2}, .repeat_s = 2}).check());
  EXPECT_FALSE((Trace{.kind = Kind::redraw, .low = 2, .high = 1}).check());
  EXPECT_FALSE((Trace{.kind = Kind::day, .low = 1, .high = 2, .every_s = 0}).check());
}

}  // namespace
}  // namespace longhaul::flow
