#pragma once
// The headers of the streams of sync/sfb.h.
#include <vector>

#include "longhaul/core/message.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::sfb {

// Of the stream of factors. (origin, clock, part) names what is sent; content: encoding.h.
struct FactorsHeader {
  LONGHAUL_MESSAGE(0, "factors");  // not a message by itself: it is in one
  Epoch epoch = 0;                 // of the view in which it was sent, or sent again
  Round clock = 0;                 // of its origin, from 0
  Rank origin = 0;
  std::uint32_t part = 0;     // a layer that goes as factors; or the rest of the gradient
  std::uint32_t rows = 0;     // of u and v
  std::uint32_t parties = 1;  // live workers when it was computed
  bool repeat = false;        // sent again after a loss, and not passed on
  std::uint64_t u_bytes = 0;  // how many of the bytes are u
  bool sparse = false;        // v as pairs of index and value
  std::uint64_t pairs = 0;    // of a sparse v
  std::uint64_t samples = 0;  // that the gradient is the mean over
  LONGHAUL_FIELDS(epoch, (clock, .max = 0x1p50), origin, part, rows,
                  (parties, .min = 1, .max = 4096), repeat, (u_bytes, .max = 0x1p43), sparse,
                  (pairs, .max = 0x1p40), (samples, .min = 1, .max = 0x1p40))
};

// Clocks of a worker that are here in full, in a report.
struct HeldClocks {
  Rank origin = 0;
  Round from = 0;
  std::uint32_t count = 0;
  LONGHAUL_FIELDS(origin, (from, .max = 0x1p50), count)
};

// Of the stream of control messages, without a vector.
inline constexpr std::uint32_t kMostHeld = 2000;  // a report stays below channel::kMostHeaderBytes
struct ControlHeader {
  LONGHAUL_MESSAGE(1, "control");
  enum class Kind : std::uint8_t {
    report,  // in a new view: what is here
    hash     // of the model after `clock` clocks
  };
  Kind kind = Kind::report;
  Epoch epoch = 0;
  Round clock = 0;  // that the sender is in; of one outside: its last, if it has sent any
  std::uint64_t hash = 0;
  bool is_outside = false;       // it has come back, and has no model
  Round entry = 0;               // the first clock of the sender that counts since it came (back)
  std::vector<Round> done = {};  // of each rank, below which the sender lacks nothing
  // Of those who are lost or have come back.
  std::vector<HeldClocks> held = {};
  LONGHAUL_FIELDS((kind, .max = 1), epoch, (clock, .max = 0x1p50), hash, is_outside,
                  (entry, .max = 0x1p50), (done, .max = 4096), (held, .max = kMostHeld))
};

// Of the stream of models that others adopt; content: the bytes of a model and its optimiser.
struct AdoptedHeader {
  LONGHAUL_MESSAGE(2, "adopted");
  Round comparison = 0;  // that found copies to differ
  static void fields(auto& self, auto&& visit) { LONGHAUL_FIELD(comparison, .max = 0x1p50); }
};

}  // namespace longhaul::sync::sfb
