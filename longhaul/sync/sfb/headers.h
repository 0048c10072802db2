#pragma once
// The headers of the streams of sync/sfb.h.
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul::sync::sfb {

// Of the stream of factors. (origin, clock, part) names what is sent; content: encoding.h.
struct FactorsHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "factors";
  Epoch epoch = 0;  // of the view in which it was sent, or sent again
  Round clock = 0;  // of its origin, from 0
  Rank origin = 0;
  std::uint32_t part = 0;     // a layer that goes as factors; or the rest of the gradient
  std::uint32_t rows = 0;     // of u and v
  std::uint32_t parties = 1;  // live workers when it was computed
  bool repeat = false;        // sent again after a loss, and not passed on
  std::uint64_t u_bytes = 0;  // how many of the bytes are u
  bool sparse = false;        // v as pairs of index and value
  std::uint64_t pairs = 0;    // of a sparse v
  std::uint64_t samples = 0;  // that the gradient is the mean over
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(clock, .max = 0x1p50);
    LONGHAUL_FIELD(origin);
    LONGHAUL_FIELD(part);
    LONGHAUL_FIELD(rows);
    LONGHAUL_FIELD(parties, .min = 1, .max = 4096);
    LONGHAUL_FIELD(repeat);
    LONGHAUL_FIELD(u_bytes, .max = 0x1p43);
    LONGHAUL_FIELD(sparse);
    LONGHAUL_FIELD(pairs, .max = 0x1p40);
    LONGHAUL_FIELD(samples, .min = 1, .max = 0x1p40);
  }
};

// Clocks of a worker that are here in full, in a report.
struct HeldClocks {
  Rank origin = 0;
  Round from = 0;
  std::uint32_t count = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(origin);
    LONGHAUL_FIELD(from, .max = 0x1p50);
    LONGHAUL_FIELD(count);
  }
};

// Of the stream of control messages, without a vector.
inline constexpr std::uint32_t kMostHeld = 2000;  // a report stays below channel::kMostHeaderBytes
struct ControlHeader {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "control";
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
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .max = 1);
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(clock, .max = 0x1p50);
    LONGHAUL_FIELD(hash);
    LONGHAUL_FIELD(is_outside);
    LONGHAUL_FIELD(entry, .max = 0x1p50);
    LONGHAUL_FIELD(done, .max = 4096);
    LONGHAUL_FIELD(held, .max = kMostHeld);
  }
};

// Of the stream of models that others adopt; content: the bytes of a model and its optimiser.
struct AdoptedHeader {
  static constexpr std::uint16_t kKind = 2;
  static constexpr std::string_view kName = "adopted";
  Round comparison = 0;  // that found copies to differ
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(comparison, .max = 0x1p50);
  }
};

}  // namespace longhaul::sync::sfb
