#pragma once
// A TraceCursor walks along all traces of a Wan at once, in order of time. Values are drawn only
// when they are reached, because a trace may have no end. Memory: one segment per trace.
#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/flow/trace.h"

namespace longhaul::flow {

class TraceCursor {
 public:
  struct Step {
    std::chrono::nanoseconds at{0};
    std::uint32_t trace = 0;
    double value = 0;  // from `at` on
  };
  // The traces have passed check() and outlive this. The number of a trace is its stream.
  TraceCursor(std::span<const Traced> traces, std::uint64_t seed) : traces_(traces), seed_(seed) {
    for (std::uint32_t i = 0; i < traces.size(); ++i) {
      segments_.push_back(first_segment(traces[i].trace, seed, i));
      due_.emplace_back(std::chrono::nanoseconds{0}, i);  // ascending: a heap as it is
    }
  }

  // Returns the time of the next change; first all traces have their first value, at 0. nullopt: no
  // change follows.
  std::optional<std::chrono::nanoseconds> next() const {
    if (due_.empty()) return std::nullopt;
    return due_.front().first;
  }

  // Takes that change; of several at one time that of the lowest number. CHECKs that there is one.
  Step take() {
    LH_CHECK(!due_.empty());
    std::pop_heap(due_.begin(), due_.end(), std::greater<>());
    const auto [at, trace] = due_.back();
    due_.pop_back();
    TraceSegment& segment = segments_[trace];
    const Step step{at, trace, segment.value};
    if (segment.until == std::chrono::nanoseconds::max()) return step;
    due_.emplace_back(segment.until, trace);
    std::push_heap(due_.begin(), due_.end(), std::greater<>());
    segment = next_segment(traces_[trace].trace, seed_, trace, segment);
    return step;
  }

 private:
  using Due = std::pair<std::chrono::nanoseconds, std::uint32_t>;  // when, which trace

  std::span<const Traced> traces_;
  const std::uint64_t seed_;
  std::vector<TraceSegment> segments_;  // by trace: the one that begins next
  std::vector<Due> due_;                // a heap, the earliest first
};

}  // namespace longhaul::flow
