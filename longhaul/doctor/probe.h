#pragma once
// Measures one pair: one site dials and asks, the other answers. Each side is one thread.
#include "longhaul/doctor/handshake.h"

namespace longhaul::doctor {

// The longest duration of a measurement; every phase has a time-out.
Time longest_probe(const MeasurementPlan&);

// Pings, datagrams, bulk there, bulk back. PairResult::failure says what went wrong; earlier
// results are kept.
PairResult probe(const LocalSite&, std::uint32_t to, const MeasurementPlan&);

// The answering side, until the peer's bye. `port`: where this site listens. Error: the measurement
// broke off.
Status answer(const PeerSession&, const LocalSite&, std::uint16_t port);

}  // namespace longhaul::doctor
