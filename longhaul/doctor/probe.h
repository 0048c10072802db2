#pragma once
// The measurement of one pair: one site dials and asks, the other answers. Each side is one thread.
#include "longhaul/doctor/handshake.h"

namespace longhaul::doctor {

// The most that a measurement takes, whatever the other side and the network do: every phase has a
// limit of its own.
Time longest_probe(const MeasurementPlan&);

// Pings, datagrams, bulk there, bulk back. PairResult::failure says what went wrong; what had been
// measured by then stays.
PairResult probe(const LocalSite&, std::uint32_t to, const MeasurementPlan&);

// The other side: answers until the other has what it wants. `port`: where this site listens. An
// Error: it stopped in the middle.
Status answer(const PeerSession&, const LocalSite&, std::uint16_t port);

}  // namespace longhaul::doctor
