#pragma once
// A Trace is a quantity that changes over time in steps, given explicitly or drawn from a seed.
// Plain values; a reader keeps its current TraceSegment. Equal seeds give equal segments, in the
// simulator and in the emulated WAN.
#include <chrono>
#include <cstdint>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::flow {

struct Trace {
  enum class Kind : std::uint8_t {
    steps,   // at[i] is when values[i] begins; at[0] is 0
    redraw,  // every every_s: uniform in [low, high)
    markov,  // high for an exponential time of mean high_s, then low for one of low_s, and so on
    day      // a cosine between low and high, highest at peak_s of period_s, in steps of every_s
  };
  Kind kind = Kind::steps;
  std::vector<double> at = {}, values = {};
  double repeat_s = 0;  // steps: period after which they start again; 0: the last one stays
  double low = 0, high = 0;
  double every_s = 60;
  double low_s = 60, high_s = 60;
  double period_s = 86400, peak_s = 0;
  friend bool operator==(const Trace&, const Trace&) = default;

  Status check() const;  // an Error describes the mistake, for a job file
  double highest() const;
  // Returns the value at a time of 0 or later. Only for steps.
  double steps_at(std::chrono::nanoseconds) const;
};

struct TraceSegment {
  std::uint64_t number = 0;
  double value = 0;
  std::chrono::nanoseconds until{0};  // max(): forever
  void state(auto& archive) { archive(number, value, until); }
};

// The trace has passed check(); `stream` distinguishes traces of one seed.
TraceSegment first_segment(const Trace&, std::uint64_t seed, std::uint32_t stream);
TraceSegment next_segment(const Trace&, std::uint64_t seed, std::uint32_t stream,
                          const TraceSegment&);

// A quantity of a Wan that follows a trace. Values: bytes per second (0: nothing passes), seconds,
// or the share of packets lost.
struct Traced {
  enum class What : std::uint8_t { up, down, rate, delay, loss, shared };
  What what = What::rate;
  std::uint32_t a = 0;  // the site, the pair's first, or the index of the shared link
  std::uint32_t b = 0;  // the pair's second
  Trace trace;
  friend bool operator==(const Traced&, const Traced&) = default;
};

}  // namespace longhaul::flow
