#pragma once
// What tests of networks share: packets, and what was seen of them.
#include <span>
#include <vector>

#include "longhaul/sim/fair_network.h"
#include "longhaul/sim/fifo_network.h"

namespace longhaul::sim::testing {

struct Observed {
  NetworkEvent::Kind kind;
  Rank from, to;
  double at;
  std::uint16_t tag;
  friend bool operator==(const Observed&, const Observed&) = default;
};

Packet packet(Rank from, Rank to, std::uint64_t bytes, std::uint16_t tag = 0, bool bulk = true);

// What the network tells until then.
std::vector<Observed> drain(Network& net, Time until = Time::max(), bool departures = false);

// When the last packet arrives.
double last(Network& net);

// n sites of one node; up and down at 1 MB/s, 50 ms one way.
FifoConfig equal(std::uint32_t n);

// The same links for connections that share them: warm, and without headers.
FairConfig shared(const FifoConfig& config);

Buffer save(Network& net);
Status load(Network& net, std::span<const std::byte> saved);

}  // namespace longhaul::sim::testing
