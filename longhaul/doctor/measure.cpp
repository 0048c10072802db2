#include "longhaul/doctor/measure.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::doctor {
namespace {

constexpr int kWindows = 10;
constexpr double kShortestWait = 0.005;  // seconds; less may be the machines' own
constexpr double kHeaders = 52;          // IP 20, TCP 20, its time stamps 12

double seconds_of_ns(std::int64_t ns) { return double(ns) * 1e-9; }

// On a straight line between two samples.
double bytes_by(std::span<const Sample> samples, double time) {
  const auto after = std::find_if(samples.begin() + 1, samples.end() - 1,
                                  [&](const Sample& sample) { return sample.at >= time; });
  const Sample &a = *(after - 1), &b = *after;
  if (b.at <= a.at) return b.bytes;
  return a.bytes + (b.bytes - a.bytes) * std::min((time - a.at) / (b.at - a.at), 1.0);
}

}  // namespace

double median(std::vector<double> values) {
  LH_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double PingTimes::round_trip() const {
  return seconds_of_ns(back - sent) - seconds_of_ns(left - came);
}
double PingTimes::offset() const {
  return (seconds_of_ns(came - sent) + seconds_of_ns(left - back)) / 2;
}

RoundTripStats round_trip_stats(std::span<const PingTimes> exchanges) {
  LH_CHECK(!exchanges.empty());
  std::vector<double> round_trips;
  for (const PingTimes& one : exchanges) round_trips.push_back(std::max(one.round_trip(), 0.0));
  const auto quickest = std::min_element(round_trips.begin(), round_trips.end());
  return {*quickest, median(round_trips),
          exchanges[std::size_t(quickest - round_trips.begin())].offset()};
}

double long_round_trip(std::vector<double> round_trips) {
  constexpr std::size_t kRank = 3;
  if (round_trips.size() < kRank) return 0;
  std::nth_element(round_trips.begin(), round_trips.end() - kRank, round_trips.end());
  return *(round_trips.end() - kRank);
}

QueueSeen queue_seen(double least, double transfer, double beside) {
  const double own = transfer - least, other = beside - least;
  if (own < kShortestWait || beside == 0) return {};
  if (other >= own / 2) return {QueueSeen::Kind::shared, other};
  if (other <= own / 4) return {QueueSeen::Kind::per_flow, own};
  return {};
}

double steady_rate(std::span<const Sample> samples) {
  if (samples.size() < 2 || samples.back().at <= samples.front().at) return 0;
  const double middle = (samples.front().at + samples.back().at) / 2;
  const double window = (samples.back().at - middle) / kWindows;
  std::vector<double> rates;
  for (int i = 0; i < kWindows; ++i)
    rates.push_back(
        (bytes_by(samples, middle + (i + 1) * window) - bytes_by(samples, middle + i * window)) /
        window);
  return median(std::move(rates));
}

void RateMeter::add(double at, double bytes) {
  const bool due = samples_.size() < 2 || at >= samples_[samples_.size() - 2].at + every_;
  if (!due) {  // the last one moves on
    samples_.back() = {at, bytes};
    return;
  }
  samples_.push_back({at, bytes});
  if (samples_.size() < kMaxSamples) return;
  for (std::size_t i = 1; i < samples_.size() / 2; ++i) samples_[i] = samples_[2 * i];
  const Sample last = samples_.back();
  samples_.resize(samples_.size() / 2);
  samples_.push_back(last);
  every_ *= 2;
}

BulkResult RateMeter::received() const {
  if (samples_.empty()) return {};
  const Sample &first = samples_.front(), &last = samples_.back();
  return {last.bytes, last.at - first.at, steady_rate(samples_)};
}

double ip_rate(double payload_rate, std::uint32_t mtu) {
  const double packet = mtu > 2 * kHeaders ? double(mtu) : 1500;
  return payload_rate * packet / (packet - kHeaders);
}

}  // namespace longhaul::doctor
