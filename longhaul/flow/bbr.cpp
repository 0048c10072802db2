#include "longhaul/flow/bbr.h"

#include <algorithm>
#include <cmath>

namespace longhaul::flow {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kRounds = 10;  // that the largest rate is remembered for
constexpr Nanoseconds kTripFor = std::chrono::seconds(10);
constexpr Nanoseconds kRest = milliseconds(200);
constexpr double kLeastWindow = 4;
constexpr double kMargin = 0.99;  // paced share of the rate: queues drain slowly
constexpr double kDrain = 1000.0 / 2885;
constexpr std::array<double, 8> kCycle = {1.25, 0.75, 1, 1, 1, 1, 1, 1};
constexpr double kGrowth = 1.25;
constexpr std::uint32_t kFullRounds = 3;
constexpr double kBurst_s = 1.0 / 1024;     // seconds of data that leave together
constexpr double kSlowBytes_s = 1.2e6 / 8;  // rate below which packets leave one by one
constexpr double kMostBurst = 44;           // packets in 64 KiB
constexpr std::uint32_t kExtraRounds = 5;
constexpr double kExtra_s = 0.1;  // maximum extra window, in seconds of the rate
// Policers: two intervals of 4 to 16 round trips with similar rates, in which a fifth of the
// packets is lost; then 48 rounds at that rate.
constexpr std::uint32_t kIntervalLeast = 4, kIntervalMost = 16, kFixedRounds = 48;
constexpr double kPolicedShare = 50.0 / 256, kAlike = 1.0 / 8, kAlikeBytes_s = 500;

double since_s(Nanoseconds time) { return double(time.count()) * 1e-9; }

}  // namespace

// A running maximum over a window by three candidates (Nichols' algorithm, as Linux's minmax).
void Bbr::Peak::note(std::uint64_t round, double rate) {
  const At now{round, rate};
  if (rate >= best[0].rate || round - best[2].round > kRounds) {
    best.fill(now);
    return;
  }
  if (rate >= best[1].rate) {
    best[1] = best[2] = now;
  } else if (rate >= best[2].rate) {
    best[2] = now;
  }
  const std::uint64_t age = round - best[0].round;
  if (age > kRounds) {
    best = {best[1], best[2], now};
    if (round - best[0].round > kRounds) best = {best[1], best[2], now};
  } else if (best[1].round == best[0].round && age > kRounds / 4) {
    best[1] = best[2] = now;
  } else if (best[2].round == best[1].round && age > kRounds / 2) {
    best[2] = now;
  }
}

std::uint32_t Bbr::burst() const {
  const double bytes = pacing() * mss_ * kBurst_s;
  const double least = pacing() * mss_ < kSlowBytes_s ? 1 : 2;
  return std::uint32_t(std::clamp(std::floor(bytes / mss_), least, kMostBurst));
}

double Bbr::product(double rate, double gain) const {
  if (!rtt_s_) return kFirstWindow;
  return std::ceil(rate * *rtt_s_ * gain);
}

// Room for what the sender, and a receiver that waits with its answers, hold back.
double Bbr::budget(double window) const {
  window += 3.0 * burst();
  window = 2 * std::ceil(window / 2);
  if (mode_ == Mode::probe && phase_ == 0) window += 2;
  return window;
}

// In the network when the next packet leaves: paced packets wait for their time.
double Bbr::in_net(double in_flight, const Counts& counts, Nanoseconds now) const {
  const double leaves = rate() * std::max(0.0, since_s(counts.next_send - now));
  if (pacing_gain_ > 1) in_flight += burst();
  return std::max(0.0, in_flight - leaves);
}

void Bbr::begin(double rtt_s, Nanoseconds now) {
  rtt_s_ = rtt_s;
  rtt_at_ = now;
  pacing_ = kHigh * window_ / std::max(rtt_s, 0.001) * kMargin;
}

void Bbr::renew(double rtt_s, Nanoseconds now) {
  Bbr fresh(mss_, random_);
  fresh.window_ = window_;
  fresh.most_pacing_ = most_pacing_;
  fresh.begin(rtt_s, now);
  *this = fresh;
}

void Bbr::on_ping(double rtt_s, Nanoseconds now) {
  if (rtt_s >= rtt_s_.value_or(rtt_s + 1) && now <= rtt_at_ + kTripFor) return;
  rtt_s_ = rtt_s;
  rtt_at_ = now;
}

void Bbr::set_pacing(double rate, double gain) {
  const double wanted = rate * gain * kMargin;
  if (full_ || wanted > pacing_) pacing_ = wanted;
}

bool Bbr::on_ack(const RateSample& sample, const Counts& counts) {
  update_rate(sample, counts);
  update_aggregation(sample);
  update_cycle(sample, counts);
  update_full(sample);
  update_drain(sample, counts);
  const bool rests = update_round_trip(sample, counts);
  set_gains();
  set_pacing(rate(), pacing_gain_);
  set_window(sample, counts);
  return rests;
}

void Bbr::update_rate(const RateSample& sample, const Counts& counts) {
  round_start_ = false;
  if (sample.interval_s <= 0) return;
  if (sample.prior_delivered >= next_round_at_) {
    next_round_at_ = counts.delivered;
    ++round_;
    round_start_ = true;
    conserving_ = false;
  }
  sample_policer(sample, counts);
  const double rate = double(sample.delivered) / sample.interval_s;
  if (!sample.app_limited || rate >= peak_.value()) peak_.note(round_, rate);
}

// How much more than the rate says is acknowledged at a time, lately: acknowledgements that come
// together (behind a queue, say) must not stop the sender between them.
void Bbr::update_aggregation(const RateSample& sample) {
  if (sample.acked == 0 || sample.interval_s <= 0) return;
  if (round_start_ && ++extra_rounds_ >= kExtraRounds) {
    extra_rounds_ = 0;
    extra_at_ = 1 - extra_at_;
    extra_[extra_at_] = 0;
  }
  double expected = rate() * since_s(sample.now - epoch_at_);
  if (epoch_acked_ <= expected) {
    epoch_acked_ = expected = 0;
    epoch_at_ = sample.now;
  }
  epoch_acked_ += sample.acked;
  const double extra = std::min(epoch_acked_ - expected, window_);
  extra_[extra_at_] = std::max(extra_[extra_at_], extra);
}

void Bbr::advance_phase(Nanoseconds now) {
  phase_ = (phase_ + 1) % kCycle.size();
  phase_at_ = now;
}

void Bbr::update_cycle(const RateSample& sample, const Counts& counts) {
  if (mode_ != Mode::probe) return;
  const bool whole = since_s(sample.now - phase_at_) > rtt_s_.value_or(0);
  bool next = whole;
  if (pacing_gain_ != 1) {
    const double in_flight = in_net(double(sample.prior_in_flight), counts, sample.now);
    if (pacing_gain_ > 1)
      next = whole && (sample.losses > 0 || in_flight >= inflight_at(peak_.value(), pacing_gain_));
    else
      next = whole || in_flight <= inflight_at(peak_.value(), 1);
  }
  if (next) advance_phase(sample.now);
}

void Bbr::begin_probing(Nanoseconds now) {
  mode_ = Mode::probe;
  phase_ = std::uint32_t(kCycle.size() - 1 - random_.below(kCycle.size() - 1));
  advance_phase(now);
}

void Bbr::update_full(const RateSample& sample) {
  if (full_ || !round_start_ || sample.app_limited) return;
  if (peak_.value() >= full_rate_ * kGrowth) {
    full_rate_ = peak_.value();
    full_count_ = 0;
    return;
  }
  full_ = ++full_count_ >= kFullRounds;
}

void Bbr::update_drain(const RateSample& sample, const Counts& counts) {
  if (mode_ == Mode::startup && full_) mode_ = Mode::drain;
  if (mode_ == Mode::drain &&
      in_net(double(counts.in_flight), counts, sample.now) <= inflight_at(peak_.value(), 1))
    begin_probing(sample.now);
}

bool Bbr::update_round_trip(const RateSample& sample, const Counts& counts) {
  const bool expired = rtt_s_ && sample.now > rtt_at_ + kTripFor;
  if (sample.rtt_s && (!rtt_s_ || *sample.rtt_s < *rtt_s_ || (expired && !sample.ack_delayed))) {
    rtt_s_ = sample.rtt_s;
    rtt_at_ = sample.now;
  }
  if (expired && !restarted_ && mode_ != Mode::rest) {
    mode_ = Mode::rest;
    prior_window_ = std::max(prior_window_, window_);
    rest_ends_.reset();
  }
  if (mode_ == Mode::rest) {
    if (!rest_ends_ && double(counts.in_flight) <= kLeastWindow) {
      rest_ends_ = sample.now + kRest;
      rest_round_done_ = false;
      next_round_at_ = counts.delivered;
    } else if (rest_ends_) {
      rest_round_done_ |= round_start_;
      if (rest_round_done_) end_rest(sample.now);
    }
  }
  if (sample.delivered > 0) restarted_ = false;
  return mode_ == Mode::rest;
}

void Bbr::end_rest(Nanoseconds now) {
  if (!rest_ends_ || now <= *rest_ends_) return;
  rtt_at_ = now;
  window_ = std::max(window_, prior_window_);
  if (full_)
    begin_probing(now);
  else
    mode_ = Mode::startup;
}

void Bbr::set_gains() {
  switch (mode_) {
    case Mode::startup:
      pacing_gain_ = window_gain_ = kHigh;
      return;
    case Mode::drain:
      pacing_gain_ = kDrain;
      window_gain_ = kHigh;
      return;
    case Mode::probe:
      pacing_gain_ = fixed_in_use_ ? 1 : kCycle[phase_];
      window_gain_ = 2;
      return;
    case Mode::rest:
      pacing_gain_ = window_gain_ = 1;
  }
}

// In its first round trip of a recovery it sends as much as is acknowledged; then the window that
// it had returns.
bool Bbr::recover(const RateSample& sample, const Counts& counts, double& window) {
  if (sample.losses > 0) window = std::max(window - sample.losses, 1.0);
  if (counts.recovering && !was_recovering_) {
    prior_window_ = mode_ != Mode::rest ? window_ : std::max(prior_window_, window_);
    conserving_ = true;
    next_round_at_ = counts.delivered;
    window = double(counts.in_flight) + sample.acked;
  } else if (!counts.recovering && was_recovering_) {
    window = std::max(window, prior_window_);
    conserving_ = false;
  }
  was_recovering_ = counts.recovering;
  if (conserving_) window = std::max(window, double(counts.in_flight) + sample.acked);
  return conserving_;
}

void Bbr::set_window(const RateSample& sample, const Counts& counts) {
  if (sample.acked > 0) {
    double window = window_;
    if (!recover(sample, counts, window)) {
      const double held = full_ ? std::min(rate() * kExtra_s, std::max(extra_[0], extra_[1])) : 0;
      const double target = budget(product(rate(), window_gain_) + std::floor(held));
      if (full_)
        window = std::min(window + sample.acked, target);
      else if (window < target || double(counts.delivered) < kFirstWindow)
        window += sample.acked;
      window = std::max(window, kLeastWindow);
    }
    window_ = window;
  }
  if (mode_ == Mode::rest) window_ = std::min(window_, kLeastWindow);
}

void Bbr::on_timeout(const Counts& counts, Nanoseconds now) {
  prior_window_ =
      !was_recovering_ && mode_ != Mode::rest ? window_ : std::max(prior_window_, window_);
  was_recovering_ = true;
  full_rate_ = 0;
  round_start_ = true;
  RateSample lost;
  lost.now = now;
  lost.losses = 1;
  sample_policer(lost, counts);
  window_ = double(counts.in_flight) + 1;
}

void Bbr::on_restart(Nanoseconds now) {
  restarted_ = true;
  epoch_at_ = now;
  epoch_acked_ = 0;
  if (mode_ == Mode::probe)
    set_pacing(rate(), 1);
  else if (mode_ == Mode::rest)
    end_rest(now);
}

void Bbr::begin_interval(const Counts& counts, Nanoseconds now) {
  interval_at_ = now;
  interval_delivered_ = counts.delivered;
  interval_lost_ = counts.lost;
  fixed_rounds_ = 0;
}

void Bbr::forget_policer(const Counts& counts, Nanoseconds now) {
  fixed_rate_ = 0;
  fixed_in_use_ = sampling_ = false;
  begin_interval(counts, now);
}

void Bbr::sample_policer(const RateSample& sample, const Counts& counts) {
  if (fixed_in_use_) {
    if (mode_ == Mode::probe && round_start_ && ++fixed_rounds_ >= kFixedRounds) {
      forget_policer(counts, sample.now);
      begin_probing(sample.now);
    }
    return;
  }
  if (!sampling_) {
    if (sample.losses == 0) return;
    begin_interval(counts, sample.now);
    sampling_ = true;
  }
  if (sample.app_limited) return forget_policer(counts, sample.now);
  if (round_start_) ++fixed_rounds_;
  if (fixed_rounds_ < kIntervalLeast) return;
  if (fixed_rounds_ > kIntervalMost) return forget_policer(counts, sample.now);
  if (sample.losses == 0) return;
  const double lost = double(counts.lost - interval_lost_);
  const double delivered = double(counts.delivered - interval_delivered_);
  if (delivered <= 0 || lost < kPolicedShare * delivered) return;
  const double took = since_s(sample.now - interval_at_);
  if (took < 0.001) return;
  const double rate = delivered / took;
  if (fixed_rate_ > 0) {
    const double apart = std::abs(rate - fixed_rate_);
    if (apart <= kAlike * fixed_rate_ || apart * mss_ <= kAlikeBytes_s) {
      fixed_rate_ = (rate + fixed_rate_) / 2;
      fixed_in_use_ = true;
      pacing_gain_ = 1;
      fixed_rounds_ = 0;
      return;
    }
  }
  fixed_rate_ = rate;
  begin_interval(counts, sample.now);
}

}  // namespace longhaul::flow
