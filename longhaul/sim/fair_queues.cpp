// What waits at ports that have one drop-tail queue for all flows (Wan::Queue::drop_tail). Waits
// are functions of the rates at the last settle(), and of the time, computed when somebody asks.
#include <algorithm>
#include <cmath>
#include <utility>

#include "longhaul/sim/fair_network.h"

namespace longhaul::sim {
namespace {

constexpr double kFull = 0.99;  // of a port's rate: so much in use, and packets wait
// Spread of the shares of bbr's connections in one queue, measured (docs/results/fidelity.md).
constexpr double kSpread = 0.1;
constexpr std::uint32_t kEven = 100;
constexpr std::uint64_t kWeightDraw = ~std::uint64_t{0};  // in place of a packet's number
constexpr double kSameRate = 1 - 1e-9;  // of the largest rate by weight: the port limits this flow

}  // namespace

// Of its share. Connections in one queue have unequal ones; which, is drawn once.
std::uint32_t FairNetwork::weight(const Connection& c) const {
  if (!drop_tail()) return 1;
  if (c.pair == kNone || !c.reliable()) return kEven;
  Random random = draw(Purpose::network, c, kWeightDraw);
  return std::uint32_t(std::max(1.0, std::round(kEven * std::exp(kSpread * random.normal()))));
}

void FairNetwork::add_to_ports(const Connection& c, std::uint32_t index) {
  if (!drop_tail()) return;
  estimates_.emplace_back();
  there_.emplace_back();
  back_.emplace_back();
  if (c.pair == kNone) return;
  const Connection back{.from = c.to,
                        .to = c.from,
                        .service = c.service,
                        .pair = pair(pairs_[c.pair].to, pairs_[c.pair].from)};
  there_[index] = path(c);
  back_[index] = path(back);
  for (const auto* way : {&there_[index], &back_[index]})
    for (const std::uint32_t link : *way)
      ports_.resize(std::max<std::size_t>(ports_.size(), link + 1));
  for (const std::uint32_t link : there_[index]) ports_[link].connections.push_back(index);
}

void FairNetwork::forget_waits(Time now) {
  waits_at_ = now;
  for (Port& port : ports_) port.known = port.fullness_known = {};
}

void FairNetwork::age_waits(Time now) {
  if (drop_tail() && config_.tcp.control == flow::Tcp::Control::cubic && now != waits_at_)
    forget_waits(now);
}

// A port is full of a class and those before it: what comes later, of this class or below, waits.
bool FairNetwork::is_full(std::uint32_t link, std::uint8_t priority) const {
  Port& port = ports_[link];
  if (port.fullness_known[priority]) return port.full[priority];
  double load = 0;
  for (const std::uint32_t index : port.connections)
    if (connections_[index].service.priority >= priority) load += connections_[index].rate;
  port.fullness_known[priority] = true;
  return port.full[priority] = load > 0 && load >= kFull * rates_.capacity(link);
}

double FairNetwork::port_wait_s(std::uint32_t link, std::uint8_t priority) const {
  if (!is_full(link, priority)) return 0;
  Port& port = ports_[link];
  if (std::exchange(port.known[priority], true)) return port.wait_s[priority];
  const auto of_class = [&](const Connection& c) {
    return c.reliable() && c.service.priority == priority;
  };
  const auto level = [&](std::uint32_t index) {
    return connections_[index].rate / rates_.weight(index);
  };
  double most = 0;
  for (const std::uint32_t index : port.connections)
    if (of_class(connections_[index])) most = std::max(most, level(index));
  std::uint32_t flows = 0;
  double rates = 0, trips = 0, grown = 0;
  for (const std::uint32_t index : port.connections) {
    const Connection& c = connections_[index];
    if (!of_class(c) || c.rate <= 0 || level(index) < most * kSameRate) continue;
    // What a connection has in flight waits on both ways, if both are full: a half on each.
    const bool both =
        std::ranges::any_of(back_[index], [&](auto other) { return is_full(other, priority); });
    flows += streams(c);
    rates += c.rate;
    grown += streams(c) * config_.tcp.packet() *
             flow::cubic_growth(seconds(waits_at_ - estimates_[index].grows_since));
    trips += c.rate * rtt_s(c) * (both && config_.tcp.control == flow::Tcp::Control::bbr ? 0.5 : 1);
  }
  double& wait = port.wait_s[priority];
  wait = rates > 0 ? flow::queue_wait_s(config_.tcp, flows, trips / rates, config_.wan.queue_s) : 0;
  if (rates > 0 && config_.tcp.control == flow::Tcp::Control::cubic)
    wait = std::min(wait, grown / rates);
  return wait;
}

// How long a packet of this connection waits on its way.
double FairNetwork::wait_s(const Connection& c) const {
  if (!drop_tail() || c.pair == kNone) return 0;
  double sum = 0;
  const auto index = std::uint32_t(&c - connections_.data());
  for (const std::uint32_t link : there_[index]) sum += port_wait_s(link, c.service.priority);
  return sum;
}

// A round trip with the queues there and those that its acknowledgements wait in.
double FairNetwork::real_rtt_s(const Connection& c) const {
  if (!drop_tail() || c.pair == kNone) return rtt_s(c);
  double sum = rtt_s(c) + wait_s(c);
  const auto index = std::uint32_t(&c - connections_.data());
  for (const std::uint32_t link : back_[index]) sum += port_wait_s(link, c.service.priority);
  return sum;
}

// A round trip is over, or slow start.
void FairNetwork::estimate(Connection& c, std::uint32_t index, Time now) {
  Estimating& e = estimates_[index];
  if (!c.in_probe_rtt) c.slow ? e.rate.begin(c.rate) : e.rate.round(c.rate);
  e.next = now + std::max(Time{1}, Time{std::llround(real_rtt_s(c) * 1e9)});
}

// What bbr allows a connection whose acknowledgements, or packets, wait.
double FairNetwork::estimated_cap(const Connection& c, std::uint32_t index) const {
  if (!estimates(c)) return flow::kUnlimited;
  const double most = estimates_[index].rate.most(config_.tcp, rtt_s(c), real_rtt_s(c));
  return most > 0 ? most : flow::kUnlimited;
}

}  // namespace longhaul::sim
