#include "longhaul/flow/trace.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "longhaul/base/rng.h"

namespace longhaul::flow {
namespace {

using std::chrono::nanoseconds;

constexpr double kLongest = 9e9;  // seconds; what is later never comes

nanoseconds from(double s) {
  return s >= kLongest ? nanoseconds::max() : nanoseconds{std::llround(s * 1e9)};
}
double in_seconds(nanoseconds t) { return double(t.count()) * 1e-9; }

TraceSegment step(const Trace& t, std::uint64_t number) {
  const std::uint64_t size = t.values.size(), i = number % size;
  const double begin = double(number / size) * t.repeat_s;
  double until = i + 1 < size ? begin + t.at[i + 1] : begin + t.repeat_s;
  if (i + 1 == size && t.repeat_s == 0) until = kLongest;
  return {number, t.values[i], from(until)};
}

TraceSegment markov(const Trace& t, Random random, std::uint64_t number, nanoseconds begin) {
  const bool high = number % 2 == 0;
  const double lasts = -std::log(1 - random.uniform()) * (high ? t.high_s : t.low_s);
  const nanoseconds until = from(in_seconds(begin) + lasts);
  return {number, high ? t.high : t.low, std::max(until, begin + nanoseconds{1})};
}

TraceSegment day(const Trace& t, std::uint64_t number) {
  const double middle = (double(number) + 0.5) * t.every_s;
  const double angle = 2 * std::numbers::pi * (middle - t.peak_s) / t.period_s;
  const double value = (t.high + t.low) / 2 + (t.high - t.low) / 2 * std::cos(angle);
  return {number, value, from(double(number + 1) * t.every_s)};
}

TraceSegment segment(const Trace& t, std::uint64_t seed, std::uint32_t stream, std::uint64_t number,
                     nanoseconds begin) {
  Random random(seed, {Purpose::trace, number, stream});
  switch (t.kind) {
    case Trace::Kind::steps:
      return step(t, number);
    case Trace::Kind::redraw:
      return {number, t.low + (t.high - t.low) * random.uniform(),
              from(double(number + 1) * t.every_s)};
    case Trace::Kind::markov:
      return markov(t, random, number, begin);
    case Trace::Kind::day:
      return day(t, number);
  }
  return {};
}

bool positive(double x) { return std::isfinite(x) && x > 0; }

Status check_steps(const Trace& t) {
  if (t.values.empty() || t.at.size() != t.values.size())
    return invalid("as many values as times, and at least one");
  if (t.at[0] != 0) return invalid("a first time of 0");
  for (std::size_t i = 1; i < t.at.size(); ++i)
    if (!(t.at[i] > t.at[i - 1])) return invalid("times that ascend");
  if (t.repeat_s != 0 && !(t.repeat_s > t.at.back()))
    return invalid("a repetition after the last time, or none");
  return Ok{};
}

}  // namespace

Status Trace::check() const {
  for (const double value : values)
    if (!std::isfinite(value) || value < 0) return invalid("values of at least 0");
  if (kind == Kind::steps) return check_steps(*this);
  if (!std::isfinite(low) || !std::isfinite(high) || low < 0 || high < low)
    return invalid("0 <= low <= high");
  if (!positive(every_s) || !positive(low_s) || !positive(high_s) || !positive(period_s))
    return invalid("durations above 0");
  return Ok{};
}

double Trace::highest() const {
  return kind == Kind::steps ? *std::max_element(values.begin(), values.end()) : high;
}

double Trace::steps_at(nanoseconds time) const {
  const auto begins = [](double s) { return from(s); };
  nanoseconds within = time;
  if (repeat_s > 0) within = time % from(repeat_s);
  const auto later = std::ranges::upper_bound(at, within, {}, begins);
  return values[std::size_t(later - at.begin()) - 1];
}

TraceSegment first_segment(const Trace& trace, std::uint64_t seed, std::uint32_t stream) {
  return segment(trace, seed, stream, 0, nanoseconds{0});
}

TraceSegment next_segment(const Trace& trace, std::uint64_t seed, std::uint32_t stream,
                          const TraceSegment& last) {
  return segment(trace, seed, stream, last.number + 1, last.until);
}

}  // namespace longhaul::flow
