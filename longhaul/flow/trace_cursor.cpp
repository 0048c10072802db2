#include "longhaul/flow/trace_cursor.h"

#include <algorithm>
#include <functional>

#include "longhaul/base/check.h"

namespace longhaul::flow {

using std::chrono::nanoseconds;

TraceCursor::TraceCursor(std::span<const Traced> traces, std::uint64_t seed)
    : traces_(traces), seed_(seed) {
  for (std::uint32_t i = 0; i < traces.size(); ++i) {
    segments_.push_back(first_segment(traces[i].trace, seed, i));
    due_.emplace_back(nanoseconds{0}, i);  // ascending: a heap as it is
  }
}

std::optional<nanoseconds> TraceCursor::next() const {
  if (due_.empty()) return std::nullopt;
  return due_.front().first;
}

TraceCursor::Step TraceCursor::take() {
  LH_CHECK(!due_.empty());
  std::pop_heap(due_.begin(), due_.end(), std::greater<>());
  const auto [at, trace] = due_.back();
  due_.pop_back();
  TraceSegment& segment = segments_[trace];
  const Step step{at, trace, segment.value};
  if (segment.until == nanoseconds::max()) return step;
  due_.emplace_back(segment.until, trace);
  std::push_heap(due_.begin(), due_.end(), std::greater<>());
  segment = next_segment(traces_[trace].trace, seed_, trace, segment);
  return step;
}

}  // namespace longhaul::flow
