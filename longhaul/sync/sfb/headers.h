#pragma once
// The headers of the streams of sync/sfb.h.
#include <vector>

#include "longhaul/core/message.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::sfb {

// Header of the stream of factors. (origin, clock, part) identifies the content; see encoding.h.
struct FactorsHeader {
  LONGHAUL_MESSAGE(0, "factors");  // part of another message
  Epoch epoch = 0;                 // epoch in which it was sent or resent
  Round clock = 0;                 // clock of its origin, from 0
  Rank origin = 0;
  std::uint32_t part = 0;     // a layer sent as factors, or the rest of the gradient
  std::uint32_t rows = 0;     // rows of u and v
  std::uint32_t parties = 1;  // live workers when it was computed
  bool repeat = false;        // resent after a loss, and not passed on
  std::uint64_t u_bytes = 0;  // bytes of u
  bool sparse = false;        // v as pairs of index and value
  std::uint64_t pairs = 0;    // number of pairs of a sparse v
  std::uint64_t samples = 0;  // number of samples behind the gradient
  LONGHAUL_FIELDS(epoch, (clock, .max = 0x1p50), origin, part, rows,
                  (parties, .min = 1, .max = 4096), repeat, (u_bytes, .max = 0x1p43), sparse,
                  (pairs, .max = 0x1p40), (samples, .min = 1, .max = 0x1p40))
};

// Clocks of a worker that the sender of a report has in full.
struct HeldClocks {
  Rank origin = 0;
  Round from = 0;
  std::uint32_t count = 0;
  LONGHAUL_FIELDS(origin, (from, .max = 0x1p50), count)
};

// Header of the stream of control messages, without a vector.
inline constexpr std::uint32_t kMostHeld = 2000;  // a report stays below channel::kMostHeaderBytes
struct ControlHeader {
  LONGHAUL_MESSAGE(1, "control");
  enum class Kind : std::uint8_t {
    report,  // in a new view: the sender's clocks
    hash     // hash of the model after `clock` clocks
  };
  Kind kind = Kind::report;
  Epoch epoch = 0;
  Round clock = 0;  // clock of the sender; outside: its last, if it has sent any
  std::uint64_t hash = 0;
  bool is_outside = false;       // the sender has returned, and has no model
  Round entry = 0;               // first clock of the sender that counts since its start or return
  std::vector<Round> done = {};  // by rank: clock below which the sender lacks nothing
  // Clocks of lost and returned workers.
  std::vector<HeldClocks> held = {};
  LONGHAUL_FIELDS((kind, .max = 1), epoch, (clock, .max = 0x1p50), hash, is_outside,
                  (entry, .max = 0x1p50), (done, .max = 4096), (held, .max = kMostHeld))
};

// Header of the stream of adopted models; content: the bytes of a model and its optimiser.
struct AdoptedHeader {
  LONGHAUL_MESSAGE(2, "adopted");
  Round comparison = 0;  // comparison in which copies differed
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(comparison, .max = 0x1p50); }
};

}  // namespace longhaul::sync::sfb
