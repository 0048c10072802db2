#include "longhaul/net/datagram_rate.h"

#include <algorithm>
#include <cmath>

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;

constexpr double kStartupGain = 2.885;  // 2 / ln 2: doubles the rate each round trip
constexpr double kWindowGain = 2, kMargin = 0.99, kDatagram = 1228;
constexpr double kAbove = 1.25, kBelowGain = 0.75;
constexpr double kFull = 1.25;  // startup goes on while a round brings so much more
constexpr int kFullRounds = 3;
constexpr Time kTripLasts = 10s, kTripProbe = 200ms, kStalled = 1s;
constexpr std::uint64_t kEnough = 50, kMostJudged = 1000;  // datagrams to judge loss by
constexpr double kChance = 3;                              // standard deviations
constexpr double kFirstDatagrams = 10;   // in the first round trip, as TCP (RFC 6928)
constexpr double kFirst = 1.25e6;        // bytes/s while no round trip is known
constexpr double kHeldSeconds = 0.006;   // what peers hold their reports back, about
constexpr double kBurstSeconds = 0.008;  // what a late wake-up may make up for

}  // namespace

double DatagramRate::estimate() const {
  const double highest = *std::max_element(rates_.begin(), rates_.end());
  if (highest > 0) return highest;
  return least_trip_ ? kFirstDatagrams * kDatagram / std::max(seconds(*least_trip_), 1e-3) : kFirst;
}

double DatagramRate::product() const {
  return estimate() * (least_trip_ ? seconds(*least_trip_) : 0.01);
}

double DatagramRate::gain() const {
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

double DatagramRate::rate() const {
  double rate = kMargin * gain() * estimate();
  if (ceiling_) rate = std::min(rate, *ceiling_ * std::min(1.0, gain()));
  return std::clamp(rate, kLeast, kMost);
}

// Reports come in lumps: what they hold back must not stop the sender.
double DatagramRate::window() const {
  if (phase_ == Phase::probe_trip) return std::max(4 * kDatagram, 0.5 * product());
  const double gain =
      phase_ == Phase::startup || phase_ == Phase::drain ? kStartupGain : kWindowGain;
  return gain * product() + estimate() * kHeldSeconds + 16 * kDatagram;
}

double DatagramRate::burst() const {
  return std::clamp(rate() * kBurstSeconds, kLeastBurst, kMostBurst);
}

void DatagramRate::refill(Time now) {
  const double most = burst();
  tokens_ = std::min(most, tokens_ + seconds(now - filled_) * rate());
  filled_ = now;
}

// Nothing was heard of all that is under way: the path is found anew.
void DatagramRate::give_up_on_stalled(Time now) {
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

bool DatagramRate::may_send(Time now) {
  give_up_on_stalled(now);
  refill(now);
  const bool has_room = double(under_way_) < window() && sent_.size() < kMostUnderWay;
  waited_for_room_ = waited_for_room_ || !has_room;
  return tokens_ > 0 && has_room;
}

Time DatagramRate::next(Time now) const {
  if (tokens_ > 0) return now + 10ms;  // the window is full; a report comes before
  return now + from_seconds(-tokens_ / rate()) + 50us;
}

void DatagramRate::sent(Time now, std::uint64_t number, std::size_t bytes) {
  if (sent_.empty()) first_at_ = delivered_at_ = now;
  // It was neither pace nor window that it waited for: what the peer gets says little of the path.
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

void DatagramRate::report(Time now, const Got& got) {
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

void DatagramRate::learn_trip(Time now, Time trip) {
  const bool expired = least_trip_ && now - least_trip_at_ > kTripLasts;
  if (!least_trip_ || trip <= *least_trip_ || expired) {
    least_trip_ = trip;
    least_trip_at_ = now;
  }
  if (expired && phase_ == Phase::probe_rate) set_phase(Phase::probe_trip, now);
}

void DatagramRate::learn_rate(const Sent& newest, Time received_at) {
  round_was_dry_ = round_was_dry_ || newest.was_dry;
  if (newest.delivered >= round_ends_) end_round();
  const Time interval = std::max(newest.at - newest.first_at, received_at - newest.delivered_at);
  if (interval < *least_trip_ / 2) return;  // too short to tell
  const double rate = double(delivered_ - newest.delivered) / seconds(interval);
  if (newest.was_dry && rate <= estimate()) return;
  double& slot = rates_[round_ % kRounds];
  slot = std::max(slot, std::min(rate, kMost));
}

void DatagramRate::end_round() {
  const double came = rates_[round_ % kRounds];
  if (judged_sent_ >= kEnough) judge_loss(came > 0 ? came : estimate());
  if (!round_was_dry_ && phase_ == Phase::startup) {
    const bool grows = estimate() >= kFull * full_rate_;
    full_rounds_ = grows ? 0 : full_rounds_ + 1;
    if (grows) full_rate_ = estimate();
  }
  round_was_dry_ = false;
  round_ends_ = delivered_ + 1;
  // A path that little is sent on keeps its rate.
  const double highest = *std::max_element(rates_.begin(), rates_.end());
  rates_[++round_ % kRounds] = 0;
  if (*std::max_element(rates_.begin(), rates_.end()) == 0) rates_[round_ % kRounds] = highest;
}

// Is it more than the path may lose anyway, beyond chance?
void DatagramRate::judge_loss(double came) {
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

void DatagramRate::set_phase(Phase phase, Time now) {
  phase_ = phase;
  phase_at_ = now;
}

// For 2 to 8 round trips, drawn so that flows that share a link do not probe in step.
void DatagramRate::begin_cruise() {
  step_ = Step::cruise;
  drawn_ = drawn_ * 6364136223846793005u + 1442695040888963407u;
  trips_ = 2 + int(drawn_ >> 33) % 7;
}

void DatagramRate::advance(Time now) {
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

}  // namespace longhaul::net
