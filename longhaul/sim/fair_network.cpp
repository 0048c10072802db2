// Sending: connections, their shares, and the loop.
#include "longhaul/sim/fair_network.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

namespace longhaul::sim {

using What = flow::Traced::What;

namespace {

constexpr Time kInstant{1};  // delay of settle() after a change

Time after(Time since, double bytes, double rate) {
  if (rate <= 0) return WakeUpQueue::kNever;
  const double ns = std::max(0.0, bytes) / rate * 1e9;
  return ns > 4e18 ? WakeUpQueue::kNever : since + Time{std::llround(ns)};
}

constexpr double kFull = 0.99;  // share of a port's rate in use at which packets wait
// Spread of the shares of bbr's connections in one queue, measured (docs/results/fidelity.md).
constexpr double kSpread = 0.1;
constexpr std::uint32_t kEven = 100;
constexpr std::uint64_t kWeightDraw = ~std::uint64_t{0};  // instead of a packet's number
constexpr double kSameRate = 1 - 1e-9;  // share of the largest rate at which a port limits a flow

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

// Starts the first packet of the queue.
void FairNetwork::start(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  const Packet& packet = in_flight_[c.queue.front()].packet;
  c.left = c.reliable() ? flow::stream_bytes(config_.tcp, packet.bytes) / (1 - loss(c).p) *
                              (1 + acks(c, now))
                        : flow::datagram_bytes(config_.tcp, packet.bytes);
  c.since = now;
  double narrowest = rates_.narrowest(index);
  if (c.is_multicast) {  // a multicast flow uses the links of all its receivers
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
    c.rate = rates_.rate(flow_of(index));  // rate until settle()
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
  for (const std::uint32_t index : changed) {  // requires all rates, for the waits
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
  // Connections that have just left slow start now follow bbr's estimate.
  if (drop_tail() && rates_.unsettled()) unsettled_at_ = base + kInstant;
}

// Changes the rate at `base`. Bytes sent before that time used the previous rate.
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

// --- Links, the connections that pass them, and the effect of traces ----------------------------

void FairNetwork::check_config() const {
  const flow::Wan& wan = config_.wan;
  const auto check_rate = [](const flow::Rate& rate) { LH_CHECK(!rate || *rate > 0); };
  const auto check_pair = [&](const flow::Wan::Pair& pair) {
    check_rate(pair.rate);
    LH_CHECK(pair.delay_s >= 0 && pair.jitter_s >= 0 && pair.loss >= 0 && pair.loss < 1);
    LH_CHECK(pair.loss_burst == 0 || pair.loss_burst >= 1);
  };
  const auto known = [&](std::uint32_t site) { return site < wan.sites.size(); };
  for (const auto& site : wan.sites)
    for (const flow::Rate& rate : {site.up, site.down, site.lan}) check_rate(rate);
  check_pair(wan.usual);
  for (const auto& [sites, pair] : wan.pairs) {
    LH_CHECK(known(sites.first) && known(sites.second));
    check_pair(pair);
  }
  for (const auto& shared : wan.shared) {
    LH_CHECK(shared.rate > 0);
    for (const auto& [from, to] : shared.pairs) LH_CHECK(known(from) && known(to));
  }
  for (const flow::Traced& traced : wan.traces) {
    LH_CHECK(bool(traced.trace.check()));
    LH_CHECK(traced.what == What::shared ? traced.a < wan.shared.size()
                                         : known(traced.a) && known(traced.b));
  }
  for (const std::uint32_t site : config_.site_of) LH_CHECK(known(site));
}

std::uint32_t FairNetwork::add_link(const flow::Rate& rate, bool traced) {
  return rate || traced ? rates_.add_link(rate.value_or(0)) : kNone;
}

void FairNetwork::add_links() {
  const flow::Wan& wan = config_.wan;
  for (const flow::Traced& t : wan.traces) traced_.insert({t.what, {t.a, t.b}});
  for (std::uint32_t i = 0; i < wan.sites.size(); ++i) {
    sites_.push_back({.out = add_link(wan.sites[i].up, traced(What::up, i)),
                      .in = add_link(wan.sites[i].down, traced(What::down, i))});
  }
  for (const std::uint32_t site : config_.site_of) {
    const flow::Rate& rate = wan.sites[site].lan;
    nodes_.push_back({.out = add_link(rate, false), .in = add_link(rate, false)});
  }
  for (const auto& shared : wan.shared) {
    shared_.push_back(add_link(shared.rate, false));
    for (const flow::SitePair& pair : shared.pairs) crossed_[pair].push_back(shared_.back());
  }
  for (const flow::Traced& t : wan.traces)  // so that follow() finds the pair of each trace
    if (t.what == What::rate || t.what == What::delay || t.what == What::loss) pair(t.a, t.b);
}

std::uint32_t FairNetwork::pair(std::uint32_t from, std::uint32_t to) {
  const auto [index, is_new] = pair_index_.try_emplace({from, to}, std::uint32_t(pairs_.size()));
  if (is_new) {
    const flow::Wan::Pair& pair = config_.wan.pair(from, to);
    pairs_.push_back({.from = from,
                      .to = to,
                      .link = add_link(pair.rate, traced(What::rate, from, to)),
                      .delay_s = pair.delay_s,
                      .back_s = back_s(from, to),
                      .jitter_s = pair.jitter_s,
                      .loss = pair.loss,
                      .loss_burst = pair.loss_burst});
  }
  return index->second;
}

std::vector<std::uint32_t> FairNetwork::path(const Connection& c) const {
  std::vector<std::uint32_t> links;
  const auto pass = [&](std::uint32_t link) {
    if (link != kNone) links.push_back(link);
  };
  if (c.pair == kNone) {
    pass(nodes_[c.from].out);
    pass(nodes_[c.to].in);
    return links;
  }
  const DirectedPair& pair = pairs_[c.pair];
  pass(sites_[pair.from].out);
  pass(pair.link);
  if (const auto crossed = crossed_.find({pair.from, pair.to}); crossed != crossed_.end())
    for (const std::uint32_t link : crossed->second) pass(link);
  pass(sites_[pair.to].in);
  return links;
}

std::uint32_t FairNetwork::connection(Rank from, Rank to, const Service& service, Time now) {
  const auto [index, is_new] =
      connection_index_.try_emplace(key_of(from, to, service), std::uint32_t(connections_.size()));
  if (!is_new) return index->second;
  Connection c{.from = from, .to = to, .service = service};
  const std::uint32_t there = config_.site_of[from], here = config_.site_of[to];
  if (there != here) {
    c.pair = pair(there, here);
    pairs_[c.pair].connections.push_back(index->second);
  }
  c.is_multicast = c.reliable() && config_.multicast_priority == service.priority;
  if (c.is_multicast) multicast_[from].push_back(index->second);
  reset_connection(c, now);
  rates_.add_flow(path(c), service.priority, weight(c));
  connections_.push_back(std::move(c));
  add_to_ports(connections_.back(), index->second);
  if (drop_tail()) estimates_.back().grows_since = now;
  wake_ups_.add(WakeUpQueue::kNever);
  limit(index->second);
  return index->second;
}

double FairNetwork::back_s(std::uint32_t from, std::uint32_t to) const {
  const auto back = pair_index_.find({to, from});
  return back == pair_index_.end() ? config_.wan.pair(to, from).delay_s
                                   : pairs_[back->second].delay_s;
}

double FairNetwork::rtt_s(const Connection& c) const {
  if (c.pair == kNone) return 2 * config_.wan.sites[config_.site_of[c.from]].lan_delay_s;
  return pairs_[c.pair].delay_s + pairs_[c.pair].back_s;
}

flow::Loss FairNetwork::loss(const Connection& c) const {
  if (c.pair == kNone) return {};
  return {pairs_[c.pair].loss, pairs_[c.pair].loss_burst};
}

void FairNetwork::follow(std::uint32_t trace, Time now) {
  const flow::Traced& traced = config_.wan.traces[trace];
  segments_[trace] = next_segment(traced.trace, config_.seed, trace, segments_[trace]);
  trace_wake_ups_.set(trace, segments_[trace].until);
  set(traced, segments_[trace].value);
  forget_waits(now);
  if (traced.what == What::delay || traced.what == What::loss) {
    tell_connections(traced.a, traced.b, now);
    tell_connections(traced.b, traced.a, now);
  }
  mark(now);
}

void FairNetwork::set(const flow::Traced& t, double value) {
  constexpr double kMaxLoss = 0.999;
  switch (t.what) {
    case What::up:
      rates_.set_capacity(sites_[t.a].out, value);
      break;
    case What::down:
      rates_.set_capacity(sites_[t.a].in, value);
      break;
    case What::shared:
      rates_.set_capacity(shared_[t.a], value);
      break;
    case What::rate:
      rates_.set_capacity(pairs_[pair(t.a, t.b)].link, value);
      break;
    case What::delay:
      pairs_[pair(t.a, t.b)].delay_s = value;
      if (const auto back = pair_index_.find({t.b, t.a}); back != pair_index_.end())
        pairs_[back->second].back_s = value;
      break;
    case What::loss:
      pairs_[pair(t.a, t.b)].loss = std::min(value, kMaxLoss);
      break;
  }
}

// Called when the delay or loss of these sites has changed.
void FairNetwork::tell_connections(std::uint32_t from, std::uint32_t to, Time now) {
  const auto pair = pair_index_.find({from, to});
  if (pair == pair_index_.end()) return;
  for (const std::uint32_t index : pairs_[pair->second].connections) {
    Connection& c = connections_[index];
    form_windows(c, now);
    if (c.probe_rtt_at == WakeUpQueue::kNever) schedule_probe_rtt(c, now);
    if (estimates(c) && estimates_[index].next <= now) estimate(c, index, now);
    limit(index);
    wake_ups_.set(index, wake_of(c));
  }
}

void FairNetwork::note_busy(const Connection& c, int flow, Time now) {
  if (c.pair == kNone || !c.has_tcp()) return;
  DirectedPair& pair = pairs_[c.pair];
  pair.busy.add(flow, now);
  sites_[pair.from].sends.add(flow, now);
  sites_[pair.to].gets.add(flow, now);
}

// Returns the share of this direction's narrowest link for acknowledgements of the other direction,
// if both are busy. Assumes that the other direction is full.
double FairNetwork::acks(const Connection& c, Time now) const {
  if (c.pair == kNone || c.is_multicast) return 0;
  const DirectedPair& pair = pairs_[c.pair];
  const auto rate = [&](std::uint32_t link) {
    return link == kNone ? flow::kUnlimited : rates_.capacity(link);
  };
  const double up = rate(sites_[pair.from].out), down = rate(sites_[pair.to].in);
  const double between = rate(pair.link);
  const auto back_busy = [&] {
    const auto back = pair_index_.find({pair.to, pair.from});
    return back != pair_index_.end() && pairs_[back->second].busy.until(now);
  };
  const bool both = between < std::min(up, down) ? back_busy()
                    : up <= down                 ? sites_[pair.from].gets.until(now)
                                                 : sites_[pair.to].sends.until(now);
  return both ? flow::ack_share(config_.tcp) : 0;
}

double FairNetwork::rate(Rank from, Rank to, Service service) const {
  const auto index = connection_index_.find(key_of(from, to, service));
  return index == connection_index_.end() ? 0 : rates_.rate(flow_of(index->second));
}

// --- Arrival times and losses of sent packets ---------------------------------------------------

// Returns a random stream per packet or round trip.
Random FairNetwork::draw(Purpose purpose, const Connection& c, std::uint64_t number) const {
  const std::uint32_t range = c.to * Service::kClasses + c.service.service_class();
  return Random(config_.seed, {purpose, number, c.from, range});
}

double FairNetwork::jittered(const Connection& c, Random& random) const {
  if (c.pair == kNone) return config_.wan.sites[config_.site_of[c.from]].lan_delay_s;
  const DirectedPair& pair = pairs_[c.pair];
  if (pair.jitter_s == 0) return pair.delay_s;
  return std::max(0.0, pair.delay_s + pair.jitter_s * random.normal());
}

// Returns the extra delay of a reliable packet's last byte because of a hole before it. The
// distance of the last lost IP packet from the end is random. This packet is repeated one round
// trip after it was sent, and again if lost again.
double FairNetwork::repair(const Connection& c, std::uint64_t packets, Random& random) const {
  const flow::Loss loss = this->loss(c);
  const double p = loss.p;
  if (p == 0) return 0;
  const auto until_loss = [&](double next) {
    return std::floor(std::log1p(-random.uniform()) / std::log1p(-next));
  };
  // A chain of two states is equal in reverse: the last packet first, then those before it.
  const double behind = loss.burst == 0            ? until_loss(p)
                        : random.uniform() < p     ? 0
                        : loss.after(false) >= 1.0 ? 1
                                                   : 1 + until_loss(loss.after(false));
  if (behind >= double(packets)) return 0;
  double trips = 1;
  while (random.uniform() < p) ++trips;
  const double sent_since =
      c.mode == Mode::single_packet ? 0 : behind * config_.tcp.packet() / c.rate;
  return std::max(0.0, trips * real_rtt_s(c) - sent_since);
}

void FairNetwork::send_off(std::uint32_t slot, Connection& c, Time now) {
  age_waits(now);
  if (!c.reliable()) return send_datagram(slot, c, now);
  Random random = draw(Purpose::network, c, c.packets++);
  const double bytes = flow::stream_bytes(config_.tcp, in_flight_[slot].packet.bytes);
  const double later =
      wait_s(c) + jittered(c, random) + repair(c, flow::packets(config_.tcp, bytes), random);
  c.last_delivery = std::max(c.last_delivery, now + Time{std::llround(later * 1e9)});
  deliveries_.push(c.last_delivery, in_flight_.id(slot));
}

bool FairNetwork::loses(const Connection& c, std::uint64_t packets, Random& random) {
  const flow::Loss loss = this->loss(c);
  if (loss.p <= 0) return false;
  bool lost = false, ignored = false;
  bool& in_burst = c.pair == kNone ? ignored : pairs_[c.pair].in_burst;
  for (; packets > 0; --packets) {
    in_burst = random.uniform() < loss.after(in_burst);
    lost |= in_burst;
  }
  return lost;
}

void FairNetwork::send_datagram(std::uint32_t slot, Connection& c, Time now) {
  const Datagrams& d = config_.datagrams;
  Random random = draw(Purpose::network, c, c.packets++);
  const Packet& packet = in_flight_[slot].packet;
  const std::uint64_t drawn = packet.unscaled > 0 ? packet.unscaled : packet.bytes;
  const double bytes = flow::datagram_bytes(config_.tcp, drawn);
  const bool lost = loses(c, flow::packets(config_.tcp, bytes), random);
  if (lost || (d.corrupted > 0 && random.uniform() < d.corrupted)) {
    ++lost_;
    return void(in_flight_.release(slot));
  }
  const auto arrival = [&] {
    double later = wait_s(c) + jittered(c, random);
    if (d.late > 0 && random.uniform() < d.late) later += d.late_s;
    return now + Time{std::llround(later * 1e9)};
  };
  deliveries_.push(arrival(), in_flight_.id(slot));
  if (d.duplicated == 0 || random.uniform() >= d.duplicated) return;
  const std::uint32_t duplicate = in_flight_.duplicate(slot);
  deliveries_.push(arrival(), in_flight_.id(duplicate));
}

std::optional<NetworkEvent> FairNetwork::delivers(PacketId id) {
  if (!in_flight_.is_current(id)) return std::nullopt;  // removed in transit
  return in_flight_.delivers(id.slot);
}

// Waits at ports with one drop-tail queue for all flows (Wan::Queue::drop_tail). Waits are
// functions of the rates at the last settle() and of the time, computed on demand.

// Returns the weight of the connection's share. Connections in one queue have unequal ones, drawn
// once.
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

// Returns true if the class and higher ones fill the port: packets of this class or below then
// wait.
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
    // The data in flight waits on both paths if both are full: half on each.
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

// Returns the time that a packet of this connection waits in queues.
double FairNetwork::wait_s(const Connection& c) const {
  if (!drop_tail() || c.pair == kNone) return 0;
  double sum = 0;
  const auto index = std::uint32_t(&c - connections_.data());
  for (const std::uint32_t link : there_[index]) sum += port_wait_s(link, c.service.priority);
  return sum;
}

// Returns the round trip including all queues, also those of its acknowledgements.
double FairNetwork::real_rtt_s(const Connection& c) const {
  if (!drop_tail() || c.pair == kNone) return rtt_s(c);
  double sum = rtt_s(c) + wait_s(c);
  const auto index = std::uint32_t(&c - connections_.data());
  for (const std::uint32_t link : back_[index]) sum += port_wait_s(link, c.service.priority);
  return sum;
}

// Called at the end of a round trip or of slow start.
void FairNetwork::estimate(Connection& c, std::uint32_t index, Time now) {
  Estimating& e = estimates_[index];
  if (!c.in_probe_rtt) c.slow ? e.rate.begin(c.rate) : e.rate.round(c.rate);
  e.next = now + std::max(Time{1}, Time{std::llround(real_rtt_s(c) * 1e9)});
}

// Returns bbr's limit for a connection whose acknowledgements or packets wait.
double FairNetwork::estimated_cap(const Connection& c, std::uint32_t index) const {
  if (!estimates(c)) return flow::kUnlimited;
  const double most = estimates_[index].rate.most(config_.tcp, rtt_s(c), real_rtt_s(c));
  return most > 0 ? most : flow::kUnlimited;
}

// --- A multicast by the network: one flow from a node to all current receivers ------------------

// Returns the flow that a connection's rate comes from: its own, or in a multicast that of its
// sender's first connection.
std::uint32_t FairNetwork::flow_of(std::uint32_t index) const {
  const Connection& c = connections_[index];
  return c.is_multicast ? multicast_.at(c.from).front() : index;
}

// Sets the flow's links to those of its current receivers.
void FairNetwork::form_multicast(Rank from) {
  const std::vector<std::uint32_t>& all = multicast_.at(from);
  std::vector<std::uint32_t> links;
  bool is_busy = false;
  for (const std::uint32_t index : all) {
    const Connection& c = connections_[index];
    if (c.mode != Mode::flowing) continue;
    is_busy = true;
    for (const std::uint32_t link : path(c))
      if (!std::ranges::count(links, link)) links.push_back(link);
  }
  if (is_busy) {
    rates_.set_links(all.front(), links);
    multicast_links_[from] = std::move(links);
  }
  rates_.set_busy(all.front(), is_busy);
}

// --- Cuts and crashes; saving and loading -------------------------------------------------------

// Empties the queue. The connection starts again as a new one.
void FairNetwork::stop(std::uint32_t index, Time now) {
  Connection& c = connections_[index];
  c.queue.clear();
  end_flow(c, index, now);
  reset_connection(c, now);
  if (drop_tail()) estimates_[index] = {.rate = {}, .grows_since = now};
  limit(index);
  mark(now);
  wake_ups_.set(index, WakeUpQueue::kNever);
}

void FairNetwork::cut(Rank from, Rank to, Time now) {
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    if (connections_[i].from == from && connections_[i].to == to) stop(i, now);
  in_flight_.cut(from, to, [](const auto&) {});
}

void FairNetwork::heal(Rank from, Rank to, Time now) {
  for (const std::uint32_t slot : in_flight_.heal(from, to)) begin_sending(slot, now);
}

void FairNetwork::crash(Rank rank, Time now) {
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    if (connections_[i].from == rank) stop(i, now);
  in_flight_.crash(rank, [](const auto& flight) { return !flight.left; });
}

void FairNetwork::state(Archive& ar) {
  ar.expect("fair network of " + std::to_string(config_.site_of.size()) + " nodes");
  using Key = std::tuple<Rank, Rank, Service::Delivery, std::uint8_t>;
  std::vector<Key> keys;
  for (const Connection& c : connections_)
    keys.emplace_back(c.from, c.to, c.service.delivery, c.service.priority);
  ar(keys);
  if (ar.loading()) {
    for (const auto& [from, to, delivery, priority] : keys) {
      if (from >= nodes_.size() || to >= nodes_.size() || priority > 7)
        return ar.fail("names a node that is not there");
      connection(from, to, {.delivery = delivery, .priority = priority}, Time{0});
    }
    if (connections_.size() != keys.size()) return ar.fail("holds other connections");
  }
  for (Connection& c : connections_) ar(c);
  ar(multicast_links_);
  if (ar.loading())
    for (const auto& [from, links] : multicast_links_) {
      const auto flow = multicast_.find(from);
      const bool good = flow != multicast_.end() && !links.empty() &&
                        std::ranges::all_of(links, [&](auto one) { return rates_.has_link(one); });
      if (!good) return ar.fail("holds a multicast over other links");
      rates_.set_links(flow->second.front(), links);
    }
  rates_.state(ar);
  for (Links& site : sites_) ar(site.sends, site.gets);
  for (DirectedPair& pair : pairs_) ar(pair.busy, pair.in_burst);
  for (Estimating& e : estimates_) ar(e);
  ar(segments_, unsettled_at_, waits_at_, in_flight_, deliveries_, lost_);
  if (!ar.loading()) return;
  check_loaded(ar);
  if (ar.failed()) return;
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    trace_wake_ups_.set(i, segments_[i].until);
    set(config_.wan.traces[i], segments_[i].value);
  }
  for (std::uint32_t i = 0; i < connections_.size(); ++i)
    wake_ups_.set(i, wake_of(connections_[i]));
}

// See PacketsInFlight::good().
void FairNetwork::check_loaded(Archive& ar) const {
  bool good = in_flight_.good() && segments_.size() == config_.wan.traces.size() &&
              unsettled_at_.has_value() == rates_.unsettled();
  for (const auto& entry : deliveries_.entries()) good &= in_flight_.has(entry.event.slot);
  std::vector<std::uint32_t> flows(pairs_.size()), sent(sites_.size()), got(sites_.size());
  for (const Connection& c : connections_) {
    good &= (c.mode == Mode::idle) == c.queue.empty() && c.mode <= Mode::flowing;
    for (const std::uint32_t slot : c.queue) good &= in_flight_.has(slot);
    good &= c.windows.empty() || c.windows.size() == streams(c);
    for (const Stream& stream : c.windows) good &= stream.window.good();
    if (drop_tail()) good &= estimates_[std::size_t(&c - connections_.data())].rate.good();
    if (c.mode != Mode::flowing || c.pair == kNone || !c.has_tcp()) continue;
    ++flows[c.pair], ++sent[pairs_[c.pair].from], ++got[pairs_[c.pair].to];
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) good &= pairs_[i].busy.flows == flows[i];
  for (std::size_t i = 0; i < sites_.size(); ++i)
    good &= sites_[i].sends.flows == sent[i] && sites_[i].gets.flows == got[i];
  if (!good) ar.fail("names a packet or a node that is not there");
}

}  // namespace longhaul::sim
