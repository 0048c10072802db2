#include "longhaul/sim/testing/networks.h"

namespace longhaul::sim::testing {

Packet packet(Rank from, Rank to, std::uint64_t bytes, std::uint16_t tag, bool bulk) {
  Packet p{.from = from, .to = to, .bytes = bytes, .service = {}, .message = {}};
  p.message.kind = tag;
  if (bulk) p.message.body = Payload::phantom(bytes);
  return p;
}

std::vector<Observed> drain(Network& net, Time until, bool departures) {
  std::vector<Observed> seen;
  while (net.next_event() && *net.next_event() <= until) {
    const Time at = *net.next_event();
    const auto notice = net.advance();
    if (!notice || (notice->kind == NetworkEvent::Kind::departed && !departures)) continue;
    seen.push_back({notice->kind, notice->packet.from, notice->packet.to, double(at.count()) / 1e9,
                    notice->packet.message.kind});
  }
  return seen;
}

double last(Network& net) { return drain(net).back().at; }

FifoConfig equal(std::uint32_t n) {
  FifoConfig config;
  config.sites.resize(
      n, {.up = 1e6, .down = 1e6, .lan = 1e7, .lan_delay = std::chrono::milliseconds(1)});
  for (std::uint32_t i = 0; i < n; ++i) config.site_of.push_back(i);
  config.link.delay = std::chrono::milliseconds(50);
  return config;
}

FairConfig shared(const FifoConfig& config) {
  FairConfig fair;
  fair.tcp.first_window = 0;
  fair.tcp.mtu = 0;
  fair.site_of = config.site_of;
  for (const auto& site : config.sites) {
    fair.wan.sites.push_back({.name = std::to_string(fair.wan.sites.size()),
                              .up = site.up,
                              .down = site.down,
                              .lan = site.lan,
                              .lan_delay_s = seconds(site.lan_delay)});
  }
  const auto pair = [](const FifoConfig::Link& link) {
    return flow::Wan::Pair{.rate = link.rate, .delay_s = seconds(link.delay)};
  };
  fair.wan.usual = pair(config.link);
  for (const auto& [sites, link] : config.links) fair.wan.pairs[sites] = pair(link);
  return fair;
}

Buffer save(Network& net) {
  Archive ar;
  net.state(ar);
  return ar.take();
}

Status load(Network& net, std::span<const std::byte> saved) {
  Archive ar(saved);
  net.state(ar);
  return ar.finish();
}

}  // namespace longhaul::sim::testing
