#include "longhaul/flow/trace_walk.h"

#include <algorithm>
#include <functional>

#include "longhaul/base/check.h"

namespace longhaul::flow {

using std::chrono::nanoseconds;

TraceWalk::TraceWalk(std::span<const Traced> traces, std::uint64_t seed)
    : traces_(traces), seed_(seed) {
  for (std::uint32_t i = 0; i < traces.size(); ++i) {
    stretches_.push_back(first_stretch(traces[i].trace, seed, i));
    due_.emplace_back(nanoseconds{0}, i);  // ascending: a heap as it is
  }
}

std::optional<nanoseconds> TraceWalk::next() const {
  if (due_.empty()) return std::nullopt;
  return due_.front().first;
}

TraceWalk::Step TraceWalk::take() {
  LH_CHECK(!due_.empty());
  std::pop_heap(due_.begin(), due_.end(), std::greater<>());
  const auto [at, trace] = due_.back();
  due_.pop_back();
  Stretch& stretch = stretches_[trace];
  const Step step{at, trace, stretch.value};
  if (stretch.until == nanoseconds::max()) return step;
  due_.emplace_back(stretch.until, trace);
  std::push_heap(due_.begin(), due_.end(), std::greater<>());
  stretch = next_stretch(traces_[trace].trace, seed_, trace, stretch);
  return step;
}

}  // namespace longhaul::flow
