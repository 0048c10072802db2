// Sending: connections, their shares, and the loop.
#include "longhaul/sim/fair_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longhaul::sim {
namespace {

constexpr Time kInstant{1};  // after which it is settled

Time after(Time since, double bytes, double rate) {
  if (rate <= 0) return Wakes::kNever;
  const double ns = std::max(0.0, bytes) / rate * 1e9;
  return ns > 4e18 ? Wakes::kNever : since + Time{std::llround(ns)};
}

}  // namespace

FairNetwork::FairNetwork(FairConfig config)
    : config_(std::move(config)), flights_(config_.site_of.size()) {
  check_config();
  add_links();
  for (std::uint32_t i = 0; i < config_.wan.traces.size(); ++i) {
    const flow::Traced& traced = config_.wan.traces[i];
    stretches_.push_back(flow::first_stretch(traced.trace, config_.seed, i));
    trace_wakes_.add(stretches_[i].until);
    set(traced, stretches_[i].value);
  }
  shares_.settle();
  dirty_.reset();
}

void FairNetwork::submit(Packet packet, Time now) {
  if (const auto slot = flights_.submit(std::move(packet))) take_off(*slot, now);
}

void FairNetwork::take_off(std::uint32_t slot, Time now) {
  const Packet& packet = flights_[slot].packet;
  const std::uint32_t index = connection(packet.from, packet.to, packet.service, now);
  Connection& c = connections_[index];
  c.queue.push_back(slot);
  if (c.queue.size() == 1) start(index, now);
}

// Begins with the first packet of the queue.
void FairNetwork::start(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  const Packet& packet = flights_[c.queue.front()].packet;
  c.left = c.reliable()
               ? flow::stream_bytes(config_.tcp, packet.bytes) / (1 - loss(c)) * (1 + acks(c, now))
               : flow::datagram_bytes(config_.tcp, packet.bytes);
  c.since = now;
  const double narrowest = shares_.narrowest(index);
  const bool small = !packet.message.is_bulk() && c.left <= config_.tcp.packet();
  if (c.mode == Mode::idle && narrowest > 0 &&
      (small || (narrowest == flow::kUnlimited && shares_.cap(index) == flow::kUnlimited))) {
    c.mode = Mode::lone;
    if (small) send_small(c, now);
    c.ends = after(now, c.left, narrowest);
  } else {
    if (c.mode == Mode::idle) begin_flow(c, index, now);
    c.ends = after(now, c.left, c.rate);
  }
  wakes_.set(index, wake_of(c));
}

void FairNetwork::begin_flow(Connection& c, std::uint32_t index, Time now) {
  wake_control(c, now);
  c.mode = Mode::flowing;
  note_busy(c, +1, now);
  shares_.set_busy(index, true);
  limit(index);
  mark(now);
}

void FairNetwork::end_flow(Connection& c, std::uint32_t index, Time now) {
  if (c.mode == Mode::flowing) {
    note_busy(c, -1, now);
    shares_.set_busy(index, false);
    mark(now);
    c.last_rate = c.rate;
  }
  c.mode = Mode::idle;
  c.idle_since = now;
}

void FairNetwork::mark(Time now) {
  LH_CHECK(!dirty_ || *dirty_ == now);
  dirty_ = shares_.unsettled() ? std::optional<Time>(now) : std::nullopt;
}

void FairNetwork::settle() {
  const Time base = *std::exchange(dirty_, std::nullopt);
  const std::vector<std::uint32_t>& changed = shares_.settle();
  const bool most = changed.size() > connections_.size() / 8;
  for (const std::uint32_t index : changed) {
    Connection& c = connections_[index];
    if (c.mode == Mode::flowing) {
      if (base > c.since) c.left = std::max(0.0, c.left - c.rate * seconds(base - c.since));
      c.since = base;
      c.ends = std::max(after(base, c.left, shares_.rate(index)), base + kInstant);
    }
    c.rate = shares_.rate(index);
    if (c.mode == Mode::flowing && c.slow && !c.resting && !window_limits(c))
      end_slow_start(c, index);
    most ? wakes_.set_later(index, wake_of(c)) : wakes_.set(index, wake_of(c));
  }
  if (most) wakes_.rebuild();
}

Time FairNetwork::wake_of(const Connection& c) const {
  if (c.mode == Mode::idle) return Wakes::kNever;
  return c.mode == Mode::flowing ? std::min(c.ends, next_control(c)) : c.ends;
}

std::optional<Time> FairNetwork::next_event() const {
  Time first = std::min(wakes_.first(), trace_wakes_.first());
  if (dirty_) first = std::min(first, *dirty_ + kInstant);
  if (!deliveries_.empty()) first = std::min(first, deliveries_.top().at);
  if (first == Wakes::kNever) return std::nullopt;
  return first;
}

std::optional<Notice> FairNetwork::advance() {
  const Time now = *next_event();
  if (dirty_ && *dirty_ + kInstant == now) return settle(), std::nullopt;
  if (trace_wakes_.first() == now)
    return follow(std::uint32_t(trace_wakes_.who()), now), std::nullopt;
  if (wakes_.first() == now) return wake(std::uint32_t(wakes_.who()), now);
  return delivers(deliveries_.pop().event);
}

std::optional<Notice> FairNetwork::wake(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  if (c.ends <= now) return depart(index, now);
  control(c, index, now);
  mark(now);
  wakes_.set(index, wake_of(c));
  return std::nullopt;
}

std::optional<Notice> FairNetwork::depart(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  const std::uint32_t slot = c.queue.front();
  c.queue.erase(c.queue.begin());
  flights_[slot].left = true;
  std::optional<Notice> notice = flights_.departs(slot);
  send_off(slot, c, now);
  if (c.mode == Mode::lone) c.mode = Mode::idle;
  if (!c.queue.empty()) return start(index, now), notice;
  end_flow(c, index, now);
  wakes_.set(index, wake_of(c));
  return notice;
}

}  // namespace longhaul::sim
