// Sending: connections, their shares, and the loop.
#include "longhaul/sim/fair_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longhaul::sim {
namespace {

constexpr Time kInstant{1};  // after which it is settled

Time after(Time since, double bytes, double rate) {
  if (rate <= 0) return WakeUpQueue::kNever;
  const double ns = std::max(0.0, bytes) / rate * 1e9;
  return ns > 4e18 ? WakeUpQueue::kNever : since + Time{std::llround(ns)};
}

}  // namespace

FairNetwork::FairNetwork(FairConfig config)
    : config_(std::move(config)), in_flight_(config_.site_of.size()) {
  check_config();
  add_links();
  for (std::uint32_t i = 0; i < config_.wan.traces.size(); ++i) {
    const flow::Traced& traced = config_.wan.traces[i];
    segments_.push_back(flow::first_segment(traced.trace, config_.seed, i));
    trace_wake_ups_.add(segments_[i].until);
    set(traced, segments_[i].value);
  }
  rates_.settle();
  unsettled_at_.reset();
}

void FairNetwork::submit(Packet packet, Time now) {
  if (const auto slot = in_flight_.submit(std::move(packet))) begin_sending(*slot, now);
}

void FairNetwork::begin_sending(std::uint32_t slot, Time now) {
  const Packet& packet = in_flight_[slot].packet;
  const std::uint32_t index = connection(packet.from, packet.to, packet.service, now);
  Connection& c = connections_[index];
  c.queue.push_back(slot);
  if (c.queue.size() == 1) start(index, now);
}

// Begins with the first packet of the queue.
void FairNetwork::start(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  const Packet& packet = in_flight_[c.queue.front()].packet;
  c.left = c.reliable() ? flow::stream_bytes(config_.tcp, packet.bytes) / (1 - loss(c).p) *
                              (1 + acks(c, now))
                        : flow::datagram_bytes(config_.tcp, packet.bytes);
  c.since = now;
  double narrowest = rates_.narrowest(index);
  if (c.is_multicast) {  // its flow's links are those of all its receivers
    narrowest = flow::kUnlimited;
    for (const std::uint32_t link : path(c)) narrowest = std::min(narrowest, rates_.capacity(link));
  }
  const bool small = !packet.message.is_bulk() && c.left <= config_.tcp.packet();
  if (c.mode == Mode::idle && narrowest > 0 &&
      (small || (narrowest == flow::kUnlimited && rates_.cap(index) == flow::kUnlimited))) {
    c.mode = Mode::single_packet;
    if (small) send_small(c, now);
    c.ends = after(now, c.left, narrowest);
  } else {
    if (c.mode == Mode::idle) begin_flow(c, index, now);
    c.ends = after(now, c.left, c.rate);
  }
  wake_ups_.set(index, wake_of(c));
}

void FairNetwork::begin_flow(Connection& c, std::uint32_t index, Time now) {
  wake_control(c, now);
  c.mode = Mode::flowing;
  note_busy(c, +1, now);
  if (c.is_multicast) {
    form_multicast(c.from);
    c.rate = rates_.rate(flow_of(index));  // until it is settled
  } else {
    rates_.set_busy(index, true);
  }
  limit(index);
  mark(now);
}

void FairNetwork::end_flow(Connection& c, std::uint32_t index, Time now) {
  const bool was_flowing = std::exchange(c.mode, Mode::idle) == Mode::flowing;
  if (was_flowing) {
    note_busy(c, -1, now);
    c.is_multicast ? form_multicast(c.from) : rates_.set_busy(index, false);
    mark(now);
    c.last_rate = c.rate;
  }
  c.idle_since = now;
}

void FairNetwork::mark(Time now) {
  LH_CHECK(!unsettled_at_ || *unsettled_at_ == now);
  unsettled_at_ = rates_.unsettled() ? std::optional<Time>(now) : std::nullopt;
}

void FairNetwork::settle() {
  const Time base = *std::exchange(unsettled_at_, std::nullopt);
  const std::vector<std::uint32_t>& changed = rates_.settle();
  forget_waits(base);
  const bool most = changed.size() > connections_.size() / 8;
  for (const std::uint32_t index : changed) {
    const Connection& c = connections_[index];
    if (!c.is_multicast) {
      follow_rate(index, rates_.rate(index), base);
      continue;
    }
    for (const std::uint32_t one : multicast_.at(c.from))
      follow_rate(one, rates_.rate(index), base);
  }
  const auto wake = [&](std::uint32_t index) {
    const Time at = wake_of(connections_[index]);
    most ? wake_ups_.set_later(index, at) : wake_ups_.set(index, at);
  };
  for (const std::uint32_t index : changed) {  // all rates are known: waits are
    Connection& c = connections_[index];
    if (c.is_multicast) {
      for (const std::uint32_t one : multicast_.at(c.from)) wake(one);
      continue;
    }
    if (c.mode == Mode::flowing && c.slow && !c.in_probe_rtt && !window_limits(c))
      end_slow_start(c, index, base);
    wake(index);
  }
  if (most) wake_ups_.rebuild();
  // Connections whose slow start has ended go by bbr's estimate from now on.
  if (drop_tail() && rates_.unsettled()) unsettled_at_ = base + kInstant;
}

// What it has sent by `base` went at the rate before.
void FairNetwork::follow_rate(std::uint32_t index, double rate, Time base) {
  Connection& c = connections_[index];
  if (c.mode == Mode::flowing) {
    if (base > c.since) c.left = std::max(0.0, c.left - c.rate * seconds(base - c.since));
    c.since = base;
    c.ends = std::max(after(base, c.left, rate), base + kInstant);
  }
  c.rate = rate;
}

Time FairNetwork::wake_of(const Connection& c) const {
  if (c.mode == Mode::idle) return WakeUpQueue::kNever;
  return c.mode == Mode::flowing ? std::min(c.ends, next_control(c)) : c.ends;
}

std::optional<Time> FairNetwork::next_event() const {
  Time first = std::min(wake_ups_.first(), trace_wake_ups_.first());
  if (unsettled_at_) first = std::min(first, *unsettled_at_ + kInstant);
  if (!deliveries_.empty()) first = std::min(first, deliveries_.top().at);
  if (first == WakeUpQueue::kNever) return std::nullopt;
  return first;
}

std::optional<NetworkEvent> FairNetwork::advance() {
  const Time now = *next_event();
  if (unsettled_at_ && *unsettled_at_ + kInstant == now) return settle(), std::nullopt;
  if (trace_wake_ups_.first() == now)
    return follow(std::uint32_t(trace_wake_ups_.who()), now), std::nullopt;
  if (wake_ups_.first() == now) return wake(std::uint32_t(wake_ups_.who()), now);
  return delivers(deliveries_.pop().event);
}

std::optional<NetworkEvent> FairNetwork::wake(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  if (c.ends <= now) return depart(index, now);
  control(c, index, now);
  mark(now);
  wake_ups_.set(index, wake_of(c));
  return std::nullopt;
}

std::optional<NetworkEvent> FairNetwork::depart(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  const std::uint32_t slot = c.queue.front();
  c.queue.erase(c.queue.begin());
  in_flight_[slot].left = true;
  std::optional<NetworkEvent> notice = in_flight_.departs(slot);
  send_off(slot, c, now);
  if (c.mode == Mode::single_packet) c.mode = Mode::idle;
  if (!c.queue.empty()) return start(index, now), notice;
  end_flow(c, index, now);
  wake_ups_.set(index, wake_of(c));
  return notice;
}

}  // namespace longhaul::sim
