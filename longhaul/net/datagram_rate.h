#pragma once
// Congestion control for the datagrams to one peer. It measures the bandwidth of the path and its
// round trip without load, paces at that bandwidth, and keeps at most twice their product in flight
// (Cardwell et al., "BBR: congestion-based congestion control", 2016). Random loss on the path does
// not reduce the rate. A round trip with more than kMuchLoss loss sets a ceiling a little below the
// delivered rate. The ceiling then rises slowly, as in later versions of BBR.
//
// The caller passes sent datagrams and the peer's reports, and asks before it sends. Time is an
// argument. Memory: 64 bytes per datagram in flight, at most kMostUnderWay of them.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <optional>

#include "longhaul/core/types.h"

namespace longhaul::net {

class DatagramRate {
 public:
  static constexpr double kLeast = 12.5e3, kMost = 1.25e9;  // bytes/s
  static constexpr double kMuchLoss = 0.1, kBelow = 0.85;
  static constexpr Time kLeastTrip = std::chrono::microseconds(20);
  static constexpr std::size_t kMostUnderWay = 65536;                       // datagrams
  static constexpr double kLeastBurst = 2 * 1228, kMostBurst = 256 * 1024;  // bytes sent at once

  // Datagrams that the peer has received since it met this node.
  struct Got {
    std::uint64_t highest = 0;  // number of the newest; the first is 1
    std::uint64_t count = 0;    // datagrams
    std::uint64_t bytes = 0;
    Time held{0};  // time since the newest arrived
  };

  // `seed`: should differ between flows on the same link.
  explicit DatagramRate(std::uint64_t seed = 1) : drawn_(seed) {}

  // Returns true if a datagram can be sent now. If not, ask again at next() or after a report.
  bool may_send(Time now) {
    give_up_on_stalled(now);
    refill(now);
    const bool has_room = double(under_way_) < window() && sent_.size() < kMostUnderWay;
    waited_for_room_ = waited_for_room_ || !has_room;
    return tokens_ > 0 && has_room;
  }

  Time next(Time now) const {
    if (tokens_ > 0)
      return now + std::chrono::milliseconds(10);  // the window is full; a report arrives earlier
    return now + from_seconds(-tokens_ / rate()) + std::chrono::microseconds(50);
  }

  // Called for each message to that peer, in ascending order of numbers.
  void sent(Time now, std::uint64_t number, std::size_t bytes) {
    if (sent_.empty()) first_at_ = delivered_at_ = now;
    // Neither pace nor window delayed this datagram, so its delivery rate says little about the
    // path.
    refill(now);
    if (tokens_ >= burst() && !waited_for_room_) dry_until_ = delivered_ + under_way_ + bytes;
    waited_for_room_ = false;
    tokens_ -= double(bytes);
    under_way_ += bytes;
    sent_.push_back({.number = number,
                     .bytes = std::uint32_t(bytes),
                     .was_dry = dry_until_ > delivered_,
                     .at = now,
                     .first_at = first_at_,
                     .delivered_at = delivered_at_,
                     .delivered = delivered_});
    if (sent_.size() <= kMostUnderWay) return;
    under_way_ -= sent_.front().bytes;
    sent_.pop_front();
  }

  // Accepts reports that are late, out of order or false.
  void report(Time now, const Got& got) {
    if (got.highest <= last_.highest || got.count < last_.count || got.bytes < last_.bytes) return;
    if (sent_.empty() || got.highest > sent_.back().number) return;
    std::uint64_t gone = 0, gone_bytes = 0;
    std::optional<Sent> newest;
    while (!sent_.empty() && sent_.front().number <= got.highest) {
      newest = sent_.front();
      ++gone;
      gone_bytes += newest->bytes;
      sent_.pop_front();
    }
    const std::uint64_t came = std::min(gone, got.count - last_.count);
    delivered_ += std::min(gone_bytes, got.bytes - last_.bytes);
    under_way_ -= gone_bytes;
    judged_sent_ += gone;
    judged_got_ += came;
    last_ = got;
    last_report_at_ = now;
    if (!newest) return;
    const Time received_at = now - std::clamp(got.held, Time{0}, now - newest->at);
    learn_trip(now, std::max(kLeastTrip, received_at - newest->at));
    learn_rate(*newest, received_at);
    delivered_at_ = std::max(delivered_at_, received_at);
    first_at_ = newest->at;
    advance(now);
  }

  // Adds the round trip of a datagram without queueing delay, such as a question's.
  void trip(Time now, Time took) { learn_trip(now, std::max(kLeastTrip, took)); }

  // bytes/s
  double rate() const {
    double rate = kMargin * gain() * estimate();
    if (ceiling_) rate = std::min(rate, *ceiling_ * std::min(1.0, gain()));
    return std::clamp(rate, kLeast, kMost);
  }

  std::optional<Time> round_trip() const { return least_trip_; }
  std::uint64_t under_way() const { return under_way_; }  // bytes
  // Returns the maximum number of bytes in flight. Reports arrive in batches: bytes whose report is
  // delayed must not stop the sender.
  double window() const {
    if (phase_ == Phase::probe_trip) return std::max(4 * kDatagram, 0.5 * product());
    const double gain =
        phase_ == Phase::startup || phase_ == Phase::drain ? kStartupGain : kWindowGain;
    return gain * product() + estimate() * kHeldSeconds + 16 * kDatagram;
  }

 private:
  static constexpr double kStartupGain = 2.885;  // 2 / ln 2: doubles the rate each round trip
  static constexpr double kWindowGain = 2, kMargin = 0.99, kDatagram = 1228;
  static constexpr double kAbove = 1.25, kBelowGain = 0.75;
  static constexpr double kFull = 1.25;  // growth per round for which startup continues
  static constexpr int kFullRounds = 3;
  static constexpr Time kTripLasts = std::chrono::seconds(10),
                        kTripProbe = std::chrono::milliseconds(200),
                        kStalled = std::chrono::seconds(1);
  static constexpr std::uint64_t kEnough = 50, kMostJudged = 1000;  // datagrams to judge loss by
  static constexpr double kChance = 3;                              // standard deviations
  static constexpr double kFirstDatagrams = 10;   // in the first round trip, as in TCP (RFC 6928)
  static constexpr double kFirst = 1.25e6;        // bytes/s until a round trip is known
  static constexpr double kHeldSeconds = 0.006;   // approximate delay of reports by the peer
  static constexpr double kBurstSeconds = 0.008;  // limit of the catch-up after a late wake-up

  enum class Phase : std::uint8_t { startup, drain, probe_rate, probe_trip };
  struct Sent {
    std::uint64_t number = 0;
    std::uint32_t bytes = 0;
    bool was_dry = false;
    Time at{0}, first_at{0}, delivered_at{0};
    std::uint64_t delivered = 0;
  };

  double burst() const { return std::clamp(rate() * kBurstSeconds, kLeastBurst, kMostBurst); }

  void refill(Time now) {
    const double most = burst();
    tokens_ = std::min(most, tokens_ + seconds(now - filled_) * rate());
    filled_ = now;
  }

  // Starts the path search again if no report arrived for the datagrams in flight.
  void give_up_on_stalled(Time now) {
    if (sent_.empty()) return;
    const Time patience = std::max(kStalled, 4 * least_trip_.value_or(Time{0}));
    if (now - std::max(last_report_at_, sent_.front().at) < patience) return;
    sent_.clear();
    under_way_ = 0;
    rates_ = {};
    ceiling_.reset();
    full_rate_ = 0;
    full_rounds_ = 0;
    set_phase(Phase::startup, now);
  }

  void learn_trip(Time now, Time trip) {
    const bool expired = least_trip_ && now - least_trip_at_ > kTripLasts;
    if (!least_trip_ || trip <= *least_trip_ || expired) {
      least_trip_ = trip;
      least_trip_at_ = now;
    }
    if (expired && phase_ == Phase::probe_rate) set_phase(Phase::probe_trip, now);
  }

  void learn_rate(const Sent& newest, Time received_at) {
    round_was_dry_ = round_was_dry_ || newest.was_dry;
    if (newest.delivered >= round_ends_) end_round();
    const Time interval = std::max(newest.at - newest.first_at, received_at - newest.delivered_at);
    if (interval < *least_trip_ / 2) return;  // too short to measure
    const double rate = double(delivered_ - newest.delivered) / seconds(interval);
    if (newest.was_dry && rate <= estimate()) return;
    double& slot = rates_[round_ % kRounds];
    slot = std::max(slot, std::min(rate, kMost));
  }

  void end_round() {
    const double came = rates_[round_ % kRounds];
    if (judged_sent_ >= kEnough) judge_loss(came > 0 ? came : estimate());
    if (!round_was_dry_ && phase_ == Phase::startup) {
      const bool grows = estimate() >= kFull * full_rate_;
      full_rounds_ = grows ? 0 : full_rounds_ + 1;
      if (grows) full_rate_ = estimate();
    }
    round_was_dry_ = false;
    round_ends_ = delivered_ + 1;
    // A path with little traffic keeps its rate.
    const double highest = *std::max_element(rates_.begin(), rates_.end());
    rates_[++round_ % kRounds] = 0;
    if (*std::max_element(rates_.begin(), rates_.end()) == 0) rates_[round_ % kRounds] = highest;
  }

  // Sets the ceiling if the loss exceeds kMuchLoss by more than chance.
  void judge_loss(double came) {
    const double sent = double(judged_sent_), loss = 1 - double(judged_got_) / sent;
    const bool is_much = loss > kMuchLoss + kChance * std::sqrt(loss / sent);
    if (is_much || judged_sent_ >= kMostJudged) judged_sent_ = judged_got_ = 0;
    if (is_much) {
      ceiling_ = std::max(kLeast, kBelow * came);
      rise_ = kDatagram;
      if (phase_ == Phase::startup) full_rounds_ = kFullRounds;
    } else if (ceiling_) {
      *ceiling_ += rise_ / seconds(*least_trip_);
      rise_ *= 2;
      if (*ceiling_ > 1.5 * estimate()) ceiling_.reset();
    }
  }

  // Cruises for 2 to 8 round trips, at random so that flows on the same link do not probe in step.
  void begin_cruise() {
    step_ = Step::cruise;
    drawn_ = drawn_ * 6364136223846793005u + 1442695040888963407u;
    trips_ = 2 + int(drawn_ >> 33) % 7;
  }

  void set_phase(Phase phase, Time now) {
    phase_ = phase;
    phase_at_ = now;
  }

  void advance(Time now) {
    const bool is_drained = double(under_way_) <= product();
    switch (phase_) {
      case Phase::startup:
        if (full_rounds_ >= kFullRounds) set_phase(Phase::drain, now);
        return;
      case Phase::drain:
        if (!is_drained) return;
        begin_cruise();
        return set_phase(Phase::probe_rate, now);
      case Phase::probe_rate: {
        const bool is_over = now - phase_at_ > trips_ * *least_trip_;
        if (!is_over && !(step_ == Step::below && is_drained)) return;
        if (step_ == Step::below) {
          begin_cruise();
        } else {
          step_ = step_ == Step::cruise ? Step::above : Step::below;
          trips_ = 1;
        }
        return set_phase(Phase::probe_rate, now);
      }
      case Phase::probe_trip:
        if (now - phase_at_ < std::max(kTripProbe, *least_trip_)) return;
        least_trip_at_ = now;
        return set_phase(full_rounds_ >= kFullRounds ? Phase::probe_rate : Phase::startup, now);
    }
  }

  double gain() const {
    switch (phase_) {
      case Phase::startup:
        return kStartupGain;
      case Phase::drain:
        return 1 / kStartupGain;
      case Phase::probe_rate:
        return step_ == Step::above ? kAbove : step_ == Step::below ? kBelowGain : 1;
      case Phase::probe_trip:
        return 1;
    }
    return 1;
  }

  // bytes/s
  double estimate() const {
    const double highest = *std::max_element(rates_.begin(), rates_.end());
    if (highest > 0) return highest;
    return least_trip_ ? kFirstDatagrams * kDatagram / std::max(seconds(*least_trip_), 1e-3)
                       : kFirst;
  }

  // bytes: estimate times round trip
  double product() const { return estimate() * (least_trip_ ? seconds(*least_trip_) : 0.01); }

  // Datagrams in flight and delivered.
  std::deque<Sent> sent_;
  std::uint64_t under_way_ = 0, delivered_ = 0, dry_until_ = 0;
  Time first_at_{0}, delivered_at_{0};
  Got last_;
  Time last_report_at_{0};
  // The path.
  static constexpr std::size_t kRounds = 10;
  std::array<double, kRounds> rates_{};  // highest rate of each of the last rounds, bytes/s
  std::uint64_t round_ = 0, round_ends_ = 0;
  std::uint64_t judged_sent_ = 0, judged_got_ = 0;  // datagrams since the last judgement of loss
  bool round_was_dry_ = false;
  std::optional<Time> least_trip_;
  Time least_trip_at_{0};
  std::optional<double> ceiling_;  // bytes/s
  double rise_ = 0;                // rise of the ceiling, bytes per round trip; doubles in each
  // State of the control.
  Phase phase_ = Phase::startup;
  Time phase_at_{0};
  enum class Step : std::uint8_t { cruise, above, below } step_ = Step::cruise;
  int trips_ = 1;  // length of the step, round trips
  std::uint64_t drawn_;
  double full_rate_ = 0;
  int full_rounds_ = 0;
  double tokens_ = kLeastBurst;
  Time filled_{0};
  bool waited_for_room_ = false;
};

}  // namespace longhaul::net
