#include "longhaul/flow/trace_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace longhaul::flow {
namespace {

using Kind = Trace::Kind;
using std::chrono::nanoseconds;
using Seen = std::tuple<nanoseconds, std::uint32_t, double>;

const std::vector<Traced> kTraces = {
    {.trace = {.at = {0, 10, 30}, .values = {5, 6, 7}, .repeat_s = 40}},
    {.trace = {.kind = Kind::redraw, .low = 20, .high = 155, .every_s = 10}},
    {.trace = {.kind = Kind::markov, .low = 1, .high = 5, .low_s = 3, .high_s = 9}},
    {.trace = {.kind = Kind::redraw, .low = 20, .high = 155, .every_s = 10}},
    {.trace = {.kind = Kind::day, .low = 1, .high = 2, .every_s = 7, .period_s = 70}},
    {.trace = {.at = {0, 25}, .values = {1, 2}}}};

// All stretches that begin before `end`, trace by trace, then sorted.
std::vector<Seen> one_by_one(std::uint64_t seed, nanoseconds end) {
  std::vector<Seen> all;
  for (std::uint32_t i = 0; i < kTraces.size(); ++i) {
    const Trace& trace = kTraces[i].trace;
    nanoseconds begin{0};
    for (TraceSegment s = first_segment(trace, seed, i); begin < end;
         s = next_segment(trace, seed, i, s)) {
      all.emplace_back(begin, i, s.value);
      begin = s.until;
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Every change of every trace, in order of time and, at one time, of number.
TEST(TraceCursor, MeetsEveryChangeInOrder) {
  constexpr nanoseconds kEnd{std::chrono::seconds(2000)};
  for (const std::uint64_t seed : {1u, 7u, 99u}) {
    TraceCursor walk(kTraces, seed);
    std::vector<Seen> seen;
    while (*walk.next() < kEnd) {
      const nanoseconds at = *walk.next();
      const TraceCursor::Step step = walk.take();
      EXPECT_EQ(step.at, at);
      seen.emplace_back(step.at, step.trace, step.value);
    }
    EXPECT_GT(seen.size(), 1000u);
    EXPECT_EQ(seen, one_by_one(seed, kEnd)) << "seed " << seed;
  }
}

TEST(TraceCursor, EndsWithTheLastChange) {
  const std::vector<Traced> traces = {{.trace = {.at = {0, 25}, .values = {1, 2}}}};
  TraceCursor walk(traces, 1);
  EXPECT_EQ(walk.take().value, 1);
  EXPECT_EQ(*walk.next(), nanoseconds(std::chrono::seconds(25)));
  EXPECT_EQ(walk.take().value, 2);
  EXPECT_EQ(walk.next(), std::nullopt);
  EXPECT_EQ(TraceCursor({}, 1).next(), std::nullopt);
}

}  // namespace
}  // namespace longhaul::flow
