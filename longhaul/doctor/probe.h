#pragma once
// Measures one pair: one site dials and asks, the other answers. Each side is one thread.
#include "longhaul/doctor/handshake.h"
#include "longhaul/doctor/measure.h"

namespace longhaul::doctor {

// The longest duration of a measurement; every phase has a time-out.
Time longest_probe(const MeasurementPlan&);

// Pings, datagrams, bulk there, bulk back. PairResult::failure says what went wrong; earlier
// results are kept.
PairResult probe(const LocalSite&, std::uint32_t to, const MeasurementPlan&);

// The answering side, until the peer's bye. `port`: where this site listens. Error: the measurement
// broke off.
Status answer(PeerSession&, const LocalSite&, std::uint16_t port);

// Sends for plan.seconds or plan.mbytes, whichever ends first, then bulk_end. The bytes do not
// compress. Returns what bulk_end said.
Result<PathInfo> send_bulk(Channel&, const MeasurementPlan&, const Deadline&);

struct Bulk {
  BulkResult received;
  PathInfo sent;  // the sender's view of the path
};
// Receives until bulk_end. Keeps a few thousand samples only. Error: the transfer stalls.
Result<Bulk> receive_bulk(Channel&, const Deadline&);

}  // namespace longhaul::doctor
