#pragma once
// The arithmetic of measurements: pure, no clocks. Seconds and bytes, unless a name says otherwise.
#include <cstdint>
#include <span>
#include <vector>

#include "longhaul/doctor/messages.h"

namespace longhaul::doctor {

// The middle one, or the mean of the two. There is at least one.
double median(std::vector<double> values);

// The four times of one request and reply, in ns: `sent` and `back` by the clock of the asking
// side, `came` and `left` by the clock of the answering side.
struct PingTimes {
  std::int64_t sent = 0, came = 0, left = 0, back = 0;
  // Seconds, without the time that the answering side took.
  double round_trip() const;
  // The other clock minus this one, in seconds (RFC 5905, section 8: theta). Half of the difference
  // of the two delays counts as offset, so the error is at most half a round trip.
  double offset() const;
};

// Statistics of several exchanges, at least one; the offset is that of the quickest.
struct RoundTripStats {
  double min = 0, median = 0, offset = 0;
};
RoundTripStats round_trip_stats(std::span<const PingTimes>);

// The third longest of several round trips, in seconds: a pause of the machine may delay two. 0:
// there are fewer than three.
double long_round_trip(std::vector<double> round_trips);

// The queue before the slowest link of a path, as a transfer that fills the link shows it.
struct QueueSeen {
  enum class Kind : std::uint8_t {
    unknown,   // no packets waited, or no datagram came
    shared,    // datagrams wait behind the transfer
    per_flow,  // the transfer waits alone
  };
  Kind kind = Kind::unknown;
  double wait_s = 0;  // the longest wait; the queue holds at least that
};
// Round trips in seconds: the least one, the longest of the transfer, the longest of datagrams
// beside it (0: unknown).
QueueSeen queue_seen(double least, double transfer, double beside);

// Bytes received by a time, in seconds.
struct Sample {
  double at = 0, bytes = 0;
};
// Bytes per second in the second half of the time, as the median of ten parts of it: without slow
// start, the queues that it fills, and short interruptions. 0: fewer than two samples, or all at
// one time.
double steady_rate(std::span<const Sample>);

// Samples of bytes received over time, a few thousand at most; times ascend.
class RateMeter {
 public:
  void add(double at, double bytes);
  BulkResult received() const;
  std::size_t kept() const { return samples_.size(); }

 private:
  static constexpr std::size_t kMaxSamples = 4096;
  std::vector<Sample> samples_;
  double every_ = 1e-3;  // between two samples, at least; doubles when there are too many
};

// Counts received datagrams, each number below `most` once.
class DatagramCounter {
 public:
  explicit DatagramCounter(std::uint32_t most) : seen_(most, false) {}
  void add(std::uint32_t number, bool marked) {
    if (number >= seen_.size() || seen_[number]) return;
    seen_[number] = true;
    ++counted_.came;
    counted_.marked += marked ? 1 : 0;
  }
  DatagramCount counted() const { return counted_; }

 private:
  std::vector<bool> seen_;
  DatagramCount counted_;
};

// The rate of IP packets of `mtu` bytes that carry `payload_rate` of a TCP stream; 52 bytes of each
// are headers. An unknown MTU (0) counts as 1500.
double ip_rate(double payload_rate, std::uint32_t mtu);

}  // namespace longhaul::doctor
