#pragma once
// The arithmetic of measurements: pure, no clocks. Seconds and bytes, unless a name says otherwise.
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::doctor {

// The middle one, or the mean of the two. There is at least one.
double median(std::vector<double> values);

// The four times of one question and answer, in ns: sent and came back by the clock of who asked,
// came and left by the clock of who answered.
struct PingTimes {
  std::int64_t sent = 0, came = 0, left = 0, back = 0;
  // Without the time that the other took.
  double round_trip() const;
  // The other clock minus this one (RFC 5905, section 8: theta). Half of what the two ways differ
  // in delay is taken for an offset; so it is off by half a round trip at most.
  double offset() const;
};

// What several exchanges come to; the offset is of the quickest, which waited least. At least one.
struct RoundTripStats {
  double min = 0, median = 0, offset = 0;
};
RoundTripStats round_trip_stats(std::span<const PingTimes>);

// How many bytes had come by when.
struct Sample {
  double at = 0, bytes = 0;
};
// Bytes per second in the second half of the time, as the median of ten parts of it: without slow
// start, the queues that fill in it, and a moment in which a machine did something else. 0: less
// than two samples, or all at one time.
double steady_rate(std::span<const Sample>);

// The rate of IP packets that carry so much of a TCP stream, if the path lets packets of `mtu`
// bytes through: each has 52 bytes of headers. An unknown MTU (0) counts as 1500.
double ip_rate(double payload_rate, std::uint32_t mtu);

}  // namespace longhaul::doctor
