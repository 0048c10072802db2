#pragma once
// What nodes believe of the links between them, by what the job says of its network
// (OverlayParts::network): for overlays that plan by it. The simulator's links are never asked.
#include <functional>
#include <memory>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/flow/wan.h"

namespace longhaul::overlay {

// Bytes per second that a node can send another; infinite: unlimited. Empty: nothing is believed.
using RateBelief = std::function<double(Rank from, Rank to)>;

// By pair, uplink and downlink, or the LAN; of what changes with time the highest rate. `network`:
// null for nothing.
RateBelief rates_of(const std::shared_ptr<const flow::Wan>& network, const Place&);

// Seconds, one way, of a node to another.
using DelayBelief = std::function<double(Rank from, Rank to)>;
// By pair, or the LAN. `network`: null for nothing.
DelayBelief delays_of(const std::shared_ptr<const flow::Wan>& network, const Place&);

// The number of each node's site in the network, by rank. CHECKs that the network has it.
std::vector<std::uint32_t> sites_of(const flow::Wan& network, const Place&);

}  // namespace longhaul::overlay
