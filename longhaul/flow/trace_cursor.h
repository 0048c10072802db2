#pragma once
// Walks along all traces of a Wan at once, in order of time; what is to come is drawn as it is
// walked to, for a trace may have no end. Memory: one stretch a trace.
#include <optional>
#include <span>
#include <utility>
#include <vector>

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
  TraceCursor(std::span<const Traced> traces, std::uint64_t seed);

  // When something changes next; first all traces have their first value, at 0. nullopt: nothing
  // changes any more.
  std::optional<std::chrono::nanoseconds> next() const;
  // That change; of several at one time that of the lowest number. CHECKs that there is one.
  Step take();

 private:
  using Due = std::pair<std::chrono::nanoseconds, std::uint32_t>;  // when, which trace

  std::span<const Traced> traces_;
  const std::uint64_t seed_;
  std::vector<TraceSegment> segments_;  // by trace: the one that begins next
  std::vector<Due> due_;                // a heap, the earliest first
};

}  // namespace longhaul::flow
