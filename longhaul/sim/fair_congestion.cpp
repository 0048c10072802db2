// Effect of TCP's congestion control on a connection: slow start, bbr's ProbeRTT, and cubic's
// windows under loss.
#include <algorithm>
#include <cmath>

#include "longhaul/core/pacing.h"
#include "longhaul/sim/fair_network.h"

namespace longhaul::sim {
namespace {

// Returns a round trip after `now`, on a grid of about a fiftieth of it (1, 2 or 5 times a power of
// 10). The windows of many connections then double at one time, and shares are computed once.
Time double_at(Time now, double rtt_s) {
  const auto rtt = std::int64_t(std::llround(rtt_s * 1e9));
  std::int64_t grid = 1;
  for (std::int64_t unit = 1; unit * 50 <= rtt; unit *= 10)
    for (const int times : {1, 2, 5})
      if (unit * times * 50 <= rtt) grid = unit * times;
  const std::int64_t at = (now.count() + rtt + grid / 2) / grid * grid;
  return std::max(Time{at}, now + Time{1});
}

// Idle time after which the transport sends a small packet, to check its peer.
constexpr Time kPing = std::chrono::seconds(1);

// Minimum part of a link for which ProbeRTT is modelled. Among more than twenty connections the
// others use the freed rate, and each ProbeRTT of thousands would change all rates.
constexpr double kMinModelledShare = 0.05;

Time later(Time now, double seconds) { return now + Time{std::llround(seconds * 1e9)}; }

}  // namespace

// Bulk uses parallel TCP connections, each with this control; control messages use one.
std::uint32_t FairNetwork::streams(const Connection& c) const {
  return c.service.priority < kControl.priority ? config_.wan.streams : 1;
}

double FairNetwork::first_rate(const Connection& c) const {
  return streams(c) * flow::slow_start_rate(config_.tcp, rtt_s(c));
}

// Returns the pair's limit for each of them.
double FairNetwork::window(const Connection& c) const {
  if (c.pair == kNone) return flow::kUnlimited;
  const DirectedPair& pair = pairs_[c.pair];
  return config_.wan.pair(pair.from, pair.to).flow.value_or(flow::kUnlimited);
}

// Resets it to a new connection.
void FairNetwork::reset_connection(Connection& c, Time now) {
  c.idle_since = now;
  c.next_doubling = Time{0};
  c.window_rate = first_rate(c);
  c.slow = c.has_tcp() && c.window_rate < flow::kUnlimited;
  c.small_acked_at = Time{0};
  end_probe_rtt(c, now);  // previous connection's ProbeRTT
  c.windows.clear();
  form_windows(c, now);
}

// Schedules the begin or end of the next modelled ProbeRTT.
void FairNetwork::schedule_probe_rtt(Connection& c, Time now) {
  const auto probe_rtt = c.has_tcp() ? flow::probe_rtt(config_.tcp, rtt_s(c)) : std::nullopt;
  c.in_probe_rtt = c.in_probe_rtt && probe_rtt;
  c.probe_rtt_at = probe_rtt ? later(now, c.in_probe_rtt ? probe_rtt->for_s : probe_rtt->every_s)
                             : WakeUpQueue::kNever;
}

// Called when an idle connection has data again.
void FairNetwork::wake_control(Connection& c, Time now) {
  if (!c.has_tcp()) return;
  age_waits(now);
  const double rtt = rtt_s(c), first = first_rate(c);
  const double idle = seconds(now - c.idle_since);
  // Linux: an idle cubic halves its window every timeout; bbr remembers the rate.
  if (config_.tcp.control == flow::Tcp::Control::cubic && !c.slow && first < flow::kUnlimited &&
      idle > flow::timeout_s(rtt)) {
    c.slow = true;
    c.window_rate =
        std::max(first, c.last_rate * std::exp2(-std::floor(idle / flow::timeout_s(rtt))));
    if (drop_tail()) estimates_[std::size_t(&c - connections_.data())].grows_since = now;
  }
  if (c.slow && c.next_doubling <= now) c.next_doubling = double_at(now, real_rtt_s(c));
  if (estimates(c)) {  // round trips pass only while data is in flight
    Estimating& e = estimates_[std::size_t(&c - connections_.data())];
    e.next = std::max(e.next, later(now, real_rtt_s(c)));
  }
  for (Stream& stream : c.windows) {
    stream.window.idle(idle, rtt, config_.tcp.first_window);
    stream.next += now - c.idle_since;  // round trips pass only while data is in flight
  }
  if (config_.paced && c.service.priority < kControl.priority && !c.in_probe_rtt)
    if (const auto probe_rtt = flow::probe_rtt(config_.tcp, rtt);
        probe_rtt && now >= later(c.probe_rtt_at, -probe_rtt->every_s) + kRenewAfter)
      end_probe_rtt(c, now);
  update_probe_rtt(c, now);
}

// bbr uses the shortest round trip of the last 10 s. Packets that travel alone have a shorter one
// than full packets among others. So the first answer to a small packet since ProbeRTT replaces a
// ProbeRTT; later ones are no shorter. `at` may be in the future.
void FairNetwork::on_small_acked(Connection& c, Time at) {
  if (!c.in_probe_rtt && c.probe_rtt_at != WakeUpQueue::kNever &&
      !std::exchange(c.probe_postponed, true))
    schedule_probe_rtt(c, at);
}

// Catches up on events during a pause.
void FairNetwork::end_pause(Connection& c, Time now) {
  if (c.in_probe_rtt && c.probe_rtt_at <= now) end_probe_rtt(c, c.probe_rtt_at);
  const Time pinged = later(c.idle_since + kPing, rtt_s(c));
  if (pinged <= now) on_small_acked(c, pinged);
}

void FairNetwork::send_small(Connection& c, Time now) {
  if (!c.has_tcp()) return;
  end_pause(c, now);
  c.small_acked_at = later(now, rtt_s(c));
  on_small_acked(c, c.small_acked_at);
}

// The first answer after a pause replaces a due ProbeRTT. The answer to a small packet does not,
// because that packet may have been delayed.
void FairNetwork::update_probe_rtt(Connection& c, Time now) {
  end_pause(c, now);
  if (c.in_probe_rtt || c.probe_rtt_at > now) return;
  if (now < c.small_acked_at) {
    c.probe_rtt_at = c.small_acked_at;
  } else {
    c.probe_postponed = false;
    schedule_probe_rtt(c, now);
  }
}

void FairNetwork::end_probe_rtt(Connection& c, Time now) {
  c.in_probe_rtt = c.probe_postponed = false;
  schedule_probe_rtt(c, now);
}

// Returns true if ProbeRTT would leave much of the link that limits the connection, or of a link
// that only this connection may use.
bool FairNetwork::models_probe_rtt(const Connection& c, std::uint32_t index) const {
  const auto probe_rtt = flow::probe_rtt(config_.tcp, rtt_s(c));
  const double leaves = probe_rtt ? c.rate - streams(c) * probe_rtt->rate : 0;
  if (c.rate >= rates_.cap(index) * (1 - 1e-9)) return true;
  return leaves >= kMinModelledShare * rates_.narrowest(index);
}

// Creates the windows of cubic if packets are lost, and removes them otherwise.
void FairNetwork::form_windows(Connection& c, Time now) {
  const double p = loss(c).p, rtt = rtt_s(c);
  if (!c.has_tcp() || rtt <= 0 || !flow::slows_on_loss(config_.tcp, p)) return c.windows.clear();
  if (!c.windows.empty()) return;
  const double first =
      config_.tcp.first_window > 0 ? config_.tcp.first_window : flow::cubic_mean_window(p, rtt);
  const Time begin = c.mode == Mode::flowing ? now : c.idle_since;
  c.windows.assign(streams(c), {flow::CubicWindow(first), later(begin, rtt)});
}

double FairNetwork::windows_rate(const Connection& c) const {
  double packets = 0;
  for (const Stream& stream : c.windows) packets += stream.window.packets();
  return packets * config_.tcp.packet() / real_rtt_s(c);
}

// Sets the rate limit of congestion control.
void FairNetwork::limit(std::uint32_t index) {
  Connection& c = connections_[index];
  if (!c.has_tcp()) return;
  double cap = streams(c) * window(c);
  if (!c.windows.empty()) {
    c.slow = false;
    cap = std::min(cap, windows_rate(c));
  }
  if (c.window_rate >= cap) c.slow = false;
  if (!c.slow) cap = std::min(cap, estimated_cap(c, index));
  if (c.slow) cap = c.window_rate;
  if (c.in_probe_rtt)
    if (const auto probe_rtt = flow::probe_rtt(config_.tcp, rtt_s(c)))
      cap = std::min(cap, streams(c) * probe_rtt->rate);
  rates_.set_cap(index, cap);
}

bool FairNetwork::window_limits(const Connection& c) {
  return c.rate >= c.window_rate * (1 - 1e-9);
}

// Ends slow start when another limit applies. Changes no rate: the window was not the limit.
void FairNetwork::end_slow_start(Connection& c, std::uint32_t index, Time now) {
  if (estimates(c)) estimate(c, index, now);
  c.slow = false;
  limit(index);
}

// Returns the next time for control(), while data is being sent.
Time FairNetwork::next_control(const Connection& c) const {
  Time next = c.slow ? std::min(c.next_doubling, c.probe_rtt_at) : c.probe_rtt_at;
  if (estimates(c)) next = std::min(next, estimates_[std::size_t(&c - connections_.data())].next);
  for (const Stream& stream : c.windows) next = std::min(next, stream.next);
  return next;
}

void FairNetwork::control(Connection& c, std::uint32_t index, Time now) {
  age_waits(now);
  if (c.probe_rtt_at <= now) {
    if (c.in_probe_rtt || !models_probe_rtt(c, index)) {
      end_probe_rtt(c, now);
    } else {
      c.in_probe_rtt = true;
      schedule_probe_rtt(c, now);
    }
  }
  if (estimates(c) && estimates_[index].next <= now) estimate(c, index, now);
  if (c.slow && c.next_doubling <= now) {
    c.slow = window_limits(c) || c.in_probe_rtt;
    if (window_limits(c)) c.window_rate *= 2;
    c.next_doubling = double_at(now, real_rtt_s(c));
  }
  const double all = windows_rate(c);
  const bool used = c.rate >= all * (1 - 1e-9);
  for (std::uint32_t i = 0; i < c.windows.size(); ++i)
    if (c.windows[i].next <= now) round_trip(c, i, all, used, now);
  limit(index);
}

// Called when a round trip of a stream has ended: draws its lost packets.
void FairNetwork::round_trip(Connection& c, std::uint32_t i, double all, bool used, Time now) {
  Stream& stream = c.windows[i];
  const double rtt = real_rtt_s(c);
  const double share = all > 0 ? c.rate / all : 0;
  Random random = draw(Purpose::windows, c, c.rounds++);
  const double sent = std::min(1.0, share) * stream.window.packets();
  const flow::Loss loss = this->loss(c);
  const double survives = loss.survival(std::floor(sent + random.uniform()));
  flow::CubicWindow::Lost lost;
  lost.any = random.uniform() >= survives;
  lost.again = random.uniform() < loss.p;
  stream.next = later(now, stream.window.round(now, rtt, lost, used));
}

}  // namespace longhaul::sim
