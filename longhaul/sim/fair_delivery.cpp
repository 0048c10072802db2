// When packets arrive that have left, and whether.
#include <algorithm>
#include <cmath>

#include "longhaul/sim/fair_network.h"

namespace longhaul::sim {

// A stream for every packet, or round trip.
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

// How much later the last byte of a reliable packet can be read for a hole before it: the last of
// its IP packets that was lost is so many others before the end; it was sent again one round trip
// after it was sent, again if lost again.
double FairNetwork::repair(const Connection& c, std::uint64_t packets, Random& random) const {
  const flow::Loss loss = this->loss(c);
  const double p = loss.p;
  if (p == 0) return 0;
  const auto until_loss = [&](double next) {
    return std::floor(std::log1p(-random.uniform()) / std::log1p(-next));
  };
  // A chain of two states looks the same backwards: the last packet, then those before it.
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
  if (!in_flight_.is_current(id)) return std::nullopt;  // taken off its way meanwhile
  return in_flight_.delivers(id.slot);
}

}  // namespace longhaul::sim
