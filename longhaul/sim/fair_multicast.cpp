// A multicast by the network: one flow from a node to all whom it is sending to.
#include <algorithm>

#include "longhaul/sim/fair_network.h"

namespace longhaul::sim {

// The flow whose rate a connection has: that of its sender's first connection, if it is part of a
// multicast.
std::uint32_t FairNetwork::flow_of(std::uint32_t index) const {
  const Connection& c = connections_[index];
  return c.is_multicast ? multicast_.at(c.from).front() : index;
}

// It passes the links to those whom it is under way to now.
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

}  // namespace longhaul::sim
