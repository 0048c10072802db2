#include "longhaul/sim/packet_network.h"

#include "longhaul/core/pacing.h"

namespace longhaul::sim {
namespace {

// As the transport marks its packets (docs/lab.md): control goes first, all else is unmarked.
constexpr unsigned kControlClass = kClasses - 1, kBulkClass = 1;

FifoConfig lan_of(const PacketConfig& config) {
  FifoConfig lan;
  for (const flow::Wan::Site& site : config.wan.sites)
    lan.sites.push_back(
        {.up = {}, .down = {}, .lan = site.lan, .lan_delay = from_seconds(site.lan_delay_s)});
  lan.site_of = config.site_of;
  return lan;
}

}  // namespace

PacketNetwork::PacketNetwork(PacketConfig config)
    : config_(std::move(config)),
      shaper_(config_.wan, config_.seed),
      lan_(lan_of(config_)),
      in_flight_(config_.site_of.size()) {}

double PacketNetwork::rtt_s(Rank from, Rank to) const {
  const std::uint32_t a = config_.site_of[from], b = config_.site_of[to];
  // A packet of headers over the links there, and its answer.
  double sum = 0;
  for (const auto& [out, in] : {std::pair{a, b}, std::pair{b, a}}) {
    sum += config_.wan.pair(out, in).delay_s;
    for (const flow::Rate& rate :
         {config_.wan.sites[out].up, config_.wan.capacity(out, in), config_.wan.sites[in].down})
      if (rate) sum += flow::kTcpHeaders / *rate;
  }
  return std::max(sum, 1e-5);
}

TcpEndpoint PacketNetwork::tcp(Rank at, Rank peer, bool control, Time now) const {
  const std::uint32_t range = peer * 2 + control;
  TcpEndpoint made(rtt_s(at, peer), Random(config_.seed, {Purpose::network, 0, at, range}), now);
  made.limit_pacing(pacing(at, peer, control));
  return made;
}

std::uint32_t PacketNetwork::end(Rank at, Rank peer, bool control, Time now) {
  const auto found = index_.find({at, peer, control});
  if (found != index_.end()) return found->second;
  const auto first = std::uint32_t(ends_.size());
  for (const auto& [here, there] : {std::pair{at, peer}, std::pair{peer, at}}) {
    index_[{here, there, control}] = std::uint32_t(ends_.size());
    ends_.push_back(
        {here, there, control, here == at ? first + 1 : first, tcp(here, there, control, now)});
    wake_ups_.add(WakeUpQueue::kNever);
  }
  return first;
}

double PacketNetwork::pacing(Rank at, Rank peer, bool control) const {
  const auto paced = config_.pacing.find({at, peer});
  return control || paced == config_.pacing.end() ? flow::kUnlimited : paced->second;
}

void PacketNetwork::submit(Packet packet, Time now) {
  now_ = std::max(now_, now);
  if (config_.site_of[packet.from] == config_.site_of[packet.to])
    return lan_.submit(std::move(packet), now);
  LH_CHECK(packet.service.delivery == Service::Delivery::reliable);
  if (const auto slot = in_flight_.submit(std::move(packet))) begin_sending(*slot, now);
}

void PacketNetwork::begin_sending(std::uint32_t slot, Time now) {
  const Packet& packet = in_flight_[slot].packet;
  const bool control = packet.service.priority == kControl.priority;
  const std::uint32_t at = end(packet.from, packet.to, control, now);
  write(ends_[at], slot, now);
  pump(at, now);
}

void PacketNetwork::write(End& from, std::uint32_t slot, Time now) {
  const Packet& packet = in_flight_[slot].packet;
  from.tcp.write(packet.bytes, now);
  const Awaited awaited{in_flight_.id(slot), from.tcp.written()};
  if (packet.message.is_bulk()) from.departing.push_back(awaited);
  from.arriving.push_back(awaited);
}

// Sends what may go, and notes what has departed.
void PacketNetwork::pump(std::uint32_t at, Time now) {
  End& from = ends_[at];
  const std::uint32_t a = config_.site_of[from.at], b = config_.site_of[from.peer];
  from.tcp.send(now, [&](const TcpSegment& segment) {
    std::uint64_t tag = under_way_.size();
    if (free_.empty()) {
      under_way_.emplace_back();
    } else {
      tag = free_.back();
      free_.pop_back();
    }
    under_way_[tag] = {segment, from.other, from.opened};
    ++figures_.packets;
    const auto outcome = shaper_.offer({.from = a,
                                        .to = b,
                                        .bytes = segment.ip_bytes(),
                                        .service_class = from.control ? kControlClass : kBulkClass,
                                        .answer = segment.length == 0,
                                        .tag = tag},
                                       now);
    if (outcome) settle(*outcome);
  });
  const auto held = std::uint64_t(most_unsent(pacing(from.at, from.peer, from.control)));
  while (!from.departing.empty() && from.departing.front().end <= from.tcp.sent() + held) {
    const PacketId id = from.departing.front().message;
    from.departing.pop_front();
    if (!in_flight_.is_current(id)) continue;
    if (auto event = in_flight_.departs(id.slot)) ready_.push_back(*std::move(event));
  }
  wake_ups_.set(at, from.tcp.wake_up());
}

// A packet is at its receiver, or nowhere.
void PacketNetwork::settle(const PacketOutcome& outcome) {
  const UnderWay packet = under_way_[outcome.packet.tag];
  free_.push_back(outcome.packet.tag);
  if (outcome.fate == PacketFate::queue_full) ++figures_.dropped;
  if (outcome.fate == PacketFate::lost) ++figures_.lost;
  End& to = ends_[packet.to];
  if (outcome.fate != PacketFate::delivered || packet.opened != to.opened) return;
  to.tcp.receive(packet.segment, outcome.at);
  std::deque<Awaited>& arriving = ends_[to.other].arriving;
  while (!arriving.empty() && arriving.front().end <= to.tcp.received()) {
    const PacketId id = arriving.front().message;
    arriving.pop_front();
    if (!in_flight_.is_current(id)) continue;
    if (auto event = in_flight_.delivers(id.slot)) ready_.push_back(*std::move(event));
  }
  pump(packet.to, outcome.at);
}

std::optional<Time> PacketNetwork::next_event() const {
  if (!ready_.empty()) return now_;
  Time next = wake_ups_.first();
  for (const std::optional<Time>& other : {shaper_.next_event(), lan_.next_event()})
    if (other) next = std::min(next, *other);
  if (next == WakeUpQueue::kNever) return std::nullopt;
  return std::max(next, now_);
}

std::optional<NetworkEvent> PacketNetwork::advance() {
  if (ready_.empty()) {
    now_ = next_event().value();
    if (lan_.next_event() == now_) return lan_.advance();
    while (const auto outcome = shaper_.advance(now_)) settle(*outcome);
    while (wake_ups_.first() <= now_) pump(std::uint32_t(wake_ups_.who()), now_);
  }
  if (ready_.empty()) return std::nullopt;
  NetworkEvent event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

// Both ends forget what was under way; messages that are neither delivered nor taken back go again.
void PacketNetwork::open_anew(std::uint32_t at, Time now) {
  const std::array<std::uint32_t, 2> both = {at, ends_[at].other};
  for (const std::uint32_t index : both) {
    End& one = ends_[index];
    one.tcp = tcp(one.at, one.peer, one.control, now);
    ++one.opened;
    one.departing.clear();
    for (const Awaited& awaited : std::exchange(one.arriving, {}))
      if (in_flight_.is_current(awaited.message)) write(one, awaited.message.slot, now);
  }
  for (const std::uint32_t index : both) pump(index, now);
}

// The plan is another then.
void PacketNetwork::end_pacing() {
  config_.pacing.clear();
  for (End& one : ends_) one.tcp.limit_pacing(flow::kUnlimited);
}

void PacketNetwork::cut(Rank from, Rank to, Time now) {
  now_ = std::max(now_, now);
  if (config_.site_of[from] == config_.site_of[to]) return lan_.cut(from, to, now);
  end_pacing();
  in_flight_.cut(from, to, [](const auto&) {});
  for (const bool control : {false, true})
    if (const auto found = index_.find({from, to, control}); found != index_.end())
      open_anew(found->second, now);
}

void PacketNetwork::heal(Rank from, Rank to, Time now) {
  now_ = std::max(now_, now);
  if (config_.site_of[from] == config_.site_of[to]) return lan_.heal(from, to, now);
  for (const std::uint32_t slot : in_flight_.heal(from, to)) begin_sending(slot, now);
}

void PacketNetwork::crash(Rank rank, Time now) {
  now_ = std::max(now_, now);
  lan_.crash(rank, now);
  end_pacing();
  in_flight_.crash(rank, [](const auto&) { return true; });
  for (std::uint32_t at = 0; at < ends_.size(); ++at)
    if (ends_[at].at == rank) open_anew(at, now);
}

void PacketNetwork::revive(Rank rank) {
  lan_.revive(rank);
  in_flight_.revive(rank);
}

void PacketNetwork::state(Archive& ar) {
  ar.fail("has no state to keep: [wan] model = \"packet\"");
}

PacketNetwork::Figures PacketNetwork::figures() const {
  Figures figures = figures_;
  for (const End& one : ends_) figures.retransmitted += one.tcp.retransmitted();
  return figures;
}

}  // namespace longhaul::sim
