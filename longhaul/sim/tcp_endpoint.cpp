#include "longhaul/sim/tcp_endpoint.h"

#include "longhaul/core/pacing.h"

#include <algorithm>
#include <cmath>

namespace longhaul::sim {
namespace {

using std::chrono::milliseconds;

constexpr Time kAnswerWithin = milliseconds(40);   // for a lone packet
constexpr Time kBetweenAnswers = milliseconds(1);  // for the same hole
constexpr std::uint32_t kSameAnswers = 3;          // answers before that pause
constexpr std::uint32_t kTellsOfLoss = 3;          // later packets that have arrived
constexpr Time kLeastTimeout = milliseconds(200);
constexpr Time kPingAfter = std::chrono::seconds(1);

Time rounded(double s) { return Time(std::llround(s * 1e9)); }

}  // namespace

TcpEndpoint::TcpEndpoint(double rtt_s, Random random, Time now)
    : control_(kMost, random),
      srtt_s_(rtt_s),
      variance_s_(rtt_s / 2),
      least_rtt_s_(rtt_s),
      base_rtt_s_(rtt_s),
      idle_since_(now) {
  control_.begin(rtt_s, now);
}

flow::Counts TcpEndpoint::counts() const {
  return {delivered_, lost_, in_flight_, recovering_, next_send_};
}

// --- Sending ------------------------------------------------------------------------------------

void TcpEndpoint::write(std::uint64_t bytes, Time now) {
  if (in_flight_ == 0 && written_ == next_ && now - idle_since_ > kPingAfter)
    control_.on_ping(base_rtt_s_, idle_since_ + (now - idle_since_) / kPingAfter * kPingAfter);
  if (control_.is_paced() && in_flight_ == 0 && written_ == next_ &&
      now - renewed_ >= kRenewAfter) {
    control_.renew(least_rtt_s_, now);
    renewed_ = now;
  }
  const bool short_of_data =
      written_ - next_ < kMost && lost_waiting_ == 0 && double(in_flight_) < control_.window();
  if (short_of_data) app_limited_until_ = std::max<std::uint64_t>(1, delivered_ + in_flight_);
  written_ += bytes;
}

std::uint32_t TcpEndpoint::unsent() const {
  return std::uint32_t(std::min<std::uint64_t>(written_ - next_, kMost));
}

TcpEndpoint::Sent* TcpEndpoint::next_lost() {
  if (lost_waiting_ == 0) return nullptr;
  for (Sent& one : sent_)
    if (one.state == Sent::State::lost) return &one;
  return nullptr;
}

void TcpEndpoint::transmit(Sent& one, Time now) {
  if (in_flight_ == 0) first_sent_at_ = delivered_at_ = now;
  one.state = Sent::State::in_flight;
  one.at = now;
  one.first_at = first_sent_at_;
  one.delivered_at = delivered_at_;
  one.delivered = delivered_;
  one.app_limited = app_limited_until_ > 0;
  ++in_flight_;
}

void TcpEndpoint::acknowledge(TcpSegment& out) {
  out.acknowledged = received_;
  out.ranges = 0;
  for (const std::uint64_t begin : recent_) {
    const auto range = beyond_.find(begin);
    if (range == beyond_.end()) continue;
    out.beyond[out.ranges++] = {range->first, range->second};
    if (out.ranges == out.beyond.size()) break;
  }
  unanswered_ = 0;
  answer_now_ = false;
  answer_at_ = Time::max();
}

void TcpEndpoint::send(Time now, const std::function<void(const TcpSegment&)>& emit) {
  if (timer_ <= now || loss_timer_ <= now) on_timer(now);
  bool any = false;
  while (now >= next_send_ || retries_tail_) {
    std::uint32_t burst = 0;
    std::uint64_t bytes = 0;
    const std::uint32_t most = control_.burst();
    while (burst < most && (double(in_flight_) < control_.window() || retries_tail_)) {
      Sent* one = next_lost();
      if (one) {
        one->again = true;
        ++retransmitted_;
        --lost_waiting_;
      } else if (unsent() > 0) {
        if (in_flight_ == 0 && app_limited_until_ > 0) control_.on_restart(now);
        sent_.push_back({.begin = next_, .length = unsent()});
        one = &sent_.back();
        next_ += one->length;
      } else if (retries_tail_ && !sent_.empty() && sent_.back().state == Sent::State::in_flight) {
        one = &sent_.back();
        one->again = true;
        ++retransmitted_;
        --in_flight_;
      } else {
        retries_tail_ = false;
        break;
      }
      retries_tail_ = false;
      transmit(*one, now);
      TcpSegment out{.begin = one->begin, .length = one->length};
      acknowledge(out);
      emit(out);
      ++burst;
      bytes += one->length;
    }
    if (burst == 0) break;
    any = true;
    next_send_ = std::max(now, next_send_) + rounded(double(bytes) / (control_.pacing() * kMost));
  }
  if (any && timer_ == Time::max()) set_timer(now);
  if (answer_now_ || answer_at_ <= now) {
    TcpSegment out{.begin = next_};
    acknowledge(out);
    emit(out);
  }
}

Time TcpEndpoint::wake_up() const {
  Time next = std::min({timer_, loss_timer_, answer_at_});
  const bool may = double(in_flight_) < control_.window() && (unsent() > 0 || lost_waiting_ > 0);
  if (may) next = std::min(next, next_send_);
  return next;
}

Time TcpEndpoint::timeout() const {
  return rounded(srtt_s_) + std::max(kLeastTimeout, rounded(4 * variance_s_));
}

// Sets a timer for a probe of the tail first, then for a time-out.
void TcpEndpoint::set_timer(Time now) {
  timer_ = Time::max();
  if (in_flight_ == 0) return;
  const Time last = timeout() * (1 << std::min(backoff_, 6u));
  timer_ = now + last;
  if (recovering_ || probed_ || backoff_ > 0) return;
  const Time probe = rounded(2 * srtt_s_) + (in_flight_ == 1 ? kLeastTimeout : milliseconds(2));
  timer_ = std::min(timer_, now + probe);
}

void TcpEndpoint::on_timer(Time now) {
  if (loss_timer_ <= now) {
    loss_timer_ = Time::max();
    const std::uint32_t found = find_lost(now);
    if (found > 0) begin_recovery();
  }
  if (timer_ > now) return;
  timer_ = Time::max();
  if (!recovering_ && !probed_ && backoff_ == 0) {
    probed_ = retries_tail_ = true;
    return set_timer(now);
  }
  for (Sent& one : sent_)
    if (one.state == Sent::State::in_flight) lose(one);
  ++backoff_;
  control_.on_timeout(counts(), now);
  begin_recovery();
  next_send_ = now;
}

void TcpEndpoint::lose(Sent& one) {
  one.state = Sent::State::lost;
  --in_flight_;
  ++lost_waiting_;
  ++lost_;
}

void TcpEndpoint::begin_recovery() {
  if (recovering_) return;
  recovering_ = true;
  recovery_end_ = next_;
}

// Marks packets as lost that were sent before an arrived one: at once after three such arrivals,
// else after a quarter of a round trip.
std::uint32_t TcpEndpoint::find_lost(Time now) {
  if (arrived_waiting_ == 0 && !recovering_) return 0;
  const bool at_once = recovering_ || arrived_waiting_ >= kTellsOfLoss;
  const Time patience = at_once ? Time{0} : rounded(least_rtt_s_ / 4);
  std::uint32_t found = 0;
  loss_timer_ = Time::max();
  for (Sent& one : sent_) {
    if (one.state != Sent::State::in_flight) continue;
    const bool before = one.at < newest_at_ || (one.at == newest_at_ && one.end() < newest_end_);
    if (!before) {
      if (!one.again && one.at > newest_at_) break;
      continue;
    }
    const Time due = one.at + rounded(srtt_s_) + patience;
    if (at_once || due <= now) {
      lose(one);
      ++found;
    } else {
      loss_timer_ = std::min(loss_timer_, due);
    }
  }
  return found;
}

void TcpEndpoint::note(Sent& one, Acked& acked) {
  if (one.state == Sent::State::in_flight) --in_flight_;
  if (one.state == Sent::State::lost) --lost_waiting_;
  ++acked.packets;
  ++delivered_;
  const auto is_newer = [&](const Sent& newest) {
    return std::pair(one.delivered, one.at) >= std::pair(newest.delivered, newest.at);
  };
  if (!acked.newest || is_newer(*acked.newest)) acked.newest = one;
  if (!one.again && (!acked.newest_once || one.at > *acked.newest_once)) acked.newest_once = one.at;
  if (one.at > newest_at_ || (one.at == newest_at_ && one.end() > newest_end_)) {
    newest_at_ = one.at;
    newest_end_ = one.end();
  }
}

void TcpEndpoint::receive(const TcpSegment& segment, Time now) {
  if (segment.length > 0) on_data(segment, now);
  on_acknowledgement(segment, now);
}

TcpEndpoint::Acked TcpEndpoint::acked_by(const TcpSegment& segment) {
  Acked acked;
  while (!sent_.empty() && sent_.front().end() <= segment.acknowledged) {
    Sent& one = sent_.front();
    if (one.state == Sent::State::arrived)
      --arrived_waiting_;
    else
      note(one, acked);
    acked.in_order = true;
    acknowledged_ = one.end();
    sent_.pop_front();
  }
  for (std::uint32_t i = 0; i < segment.ranges; ++i) {
    const ByteRange range = segment.beyond[i];
    auto at =
        std::lower_bound(sent_.begin(), sent_.end(), range.begin,
                         [](const Sent& one, std::uint64_t begin) { return one.begin < begin; });
    for (; at != sent_.end() && at->end() <= range.end; ++at) {
      if (at->state == Sent::State::arrived) continue;
      note(*at, acked);
      at->state = Sent::State::arrived;
      ++arrived_waiting_;
    }
  }
  return acked;
}

void TcpEndpoint::measure_trip(double rtt_s) {
  variance_s_ += (std::abs(rtt_s - srtt_s_) - variance_s_) / 4;
  srtt_s_ += (rtt_s - srtt_s_) / 8;
  least_rtt_s_ = std::min(least_rtt_s_, rtt_s);
}

// Samples the rate by the newest acknowledged packet: data delivered since it was sent, over the
// longer of the times for sending and acknowledging that data.
flow::RateSample TcpEndpoint::sample_of(const Acked& acked, std::uint64_t prior_in_flight,
                                        Time now) {
  flow::RateSample sample;
  sample.now = now;
  sample.acked = acked.packets;
  sample.prior_in_flight = prior_in_flight;
  if (!acked.newest) return sample;
  const Sent& one = *acked.newest;
  const double sending = seconds(one.at - one.first_at), acking = seconds(now - one.delivered_at);
  const double interval = std::max(sending, acking);
  first_sent_at_ = one.at;
  delivered_at_ = now;
  sample.prior_delivered = one.delivered;
  sample.app_limited = one.app_limited;
  if (interval >= least_rtt_s_ * (1 - 1e-9)) {
    sample.interval_s = interval;
    sample.delivered = delivered_ - one.delivered;
  }
  if (acked.newest_once) sample.rtt_s = seconds(now - *acked.newest_once);
  sample.ack_delayed = acked.packets == 1 && prior_in_flight == 1;
  return sample;
}

void TcpEndpoint::on_acknowledgement(const TcpSegment& segment, Time now) {
  if (sent_.empty()) return;
  const std::uint64_t prior_in_flight = in_flight_;
  const Acked acked = acked_by(segment);
  if (acked.newest_once) measure_trip(seconds(now - *acked.newest_once));
  if (acked.in_order) {
    backoff_ = 0;
    probed_ = false;
  }
  const std::uint32_t losses = find_lost(now);
  if (losses > 0) begin_recovery();
  if (recovering_ && acknowledged_ >= recovery_end_) recovering_ = false;
  flow::RateSample sample = sample_of(acked, prior_in_flight, now);
  sample.losses = losses;
  if (app_limited_until_ > 0 && delivered_ > app_limited_until_) app_limited_until_ = 0;
  if (control_.on_ack(sample, counts()))
    app_limited_until_ = std::max<std::uint64_t>(1, delivered_ + in_flight_);
  if (acked.packets > 0 || in_flight_ == 0) set_timer(now);
  if (in_flight_ == 0 && written_ == next_) idle_since_ = now;
}

// --- Receiving ----------------------------------------------------------------------------------

void TcpEndpoint::on_data(const TcpSegment& segment, Time now) {
  const std::uint64_t begin = segment.begin, end = segment.begin + segment.length;
  const bool had_hole = !beyond_.empty();
  if (end <= received_) {  // a duplicate
    answer_now_ = true;
    return;
  }
  if (begin <= received_) {
    received_ = end;
    while (!beyond_.empty() && beyond_.begin()->first <= received_) {
      received_ = std::max(received_, beyond_.begin()->second);
      beyond_.erase(beyond_.begin());
    }
    if (beyond_.empty()) recent_.clear();
    same_answers_ = 0;
    unanswered_ += segment.length;
    const bool at_once = had_hole || unanswered_ > kMost || quick_ > 0;
    if (quick_ > 0) --quick_;
    if (at_once)
      answer_now_ = true;
    else
      answer_at_ = std::min(answer_at_, now + kAnswerWithin);
    return;
  }
  auto at = beyond_.try_emplace(begin, end).first;
  at->second = std::max(at->second, end);
  if (at != beyond_.begin() && std::prev(at)->second >= begin) {
    const auto before = std::prev(at);
    before->second = std::max(before->second, at->second);
    beyond_.erase(at);
    at = before;
  }
  for (auto after = std::next(at); after != beyond_.end() && after->first <= at->second;) {
    at->second = std::max(at->second, after->second);
    after = beyond_.erase(after);
  }
  std::erase_if(recent_,
                [&](std::uint64_t one) { return one == at->first || !beyond_.contains(one); });
  recent_.insert(recent_.begin(), at->first);
  if (same_answers_ < kSameAnswers) {
    ++same_answers_;
    answer_now_ = true;
  } else {
    const Time wait = std::min(kBetweenAnswers, rounded(base_rtt_s_ / 20));
    answer_at_ = std::min(answer_at_, now + wait);
  }
}

}  // namespace longhaul::sim
