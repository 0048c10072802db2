#pragma once
// The headers of the two streams of sync/skewscout.h.
#include "longhaul/core/types.h"

namespace longhaul::sync::skewscout {

inline constexpr std::uint32_t kMostGrid = 64;

// With a site's parameters and buffers: its model visits another site.
struct TravelHeader {
  static constexpr std::uint16_t kKind = 0;  // not a message by itself: it is in one
  static constexpr std::string_view kName = "travel";
  Epoch epoch = 0;
  Round travel = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(travel, .max = 0x1p40);
  }
};

// Of the stream of reports and decisions, without vectors.
struct NoteHeader {
  static constexpr std::uint16_t kKind = 1;
  static constexpr std::string_view kName = "note";
  enum class Kind : std::uint8_t {
    home,    // to the scout: the sender has scored its own model
    visit,   // to the scout: the sender has scored the model of `model_of`
    theta,   // from the scout: the travel is over; the index that follows
    resume,  // from the scout, first in a view: travels go on with `travel` at step `next_at`
  };
  Kind kind = Kind::home;
  Epoch epoch = 0;
  Round travel = 0;
  // home, visit
  Rank model_of = 0;
  std::uint64_t correct = 0, samples = 0;
  bool is_finite = true;
  double exchanges = 0;     // home: sent since the travel before (sync/tunable.h)
  std::uint64_t steps = 0;  // home: computed since then
  // theta, resume
  std::uint32_t index = 0;  // into the grid
  std::uint64_t from_step = 0, next_at = 0;
  std::vector<double> objectives = {};      // of each index
  std::vector<std::uint64_t> travels = {};  // that measured them, plus one; 0: none
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .max = 3);
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(travel, .max = 0x1p40);
    LONGHAUL_FIELD(model_of);
    LONGHAUL_FIELD(correct, .max = 0x1p40);
    LONGHAUL_FIELD(samples, .max = 0x1p40);
    LONGHAUL_FIELD(is_finite);
    LONGHAUL_FIELD(exchanges, .min = 0, .max = 0x1p40);
    LONGHAUL_FIELD(steps, .max = 0x1p40);
    LONGHAUL_FIELD(index, .max = kMostGrid - 1);
    LONGHAUL_FIELD(from_step, .max = 0x1p50);
    LONGHAUL_FIELD(next_at, .max = 0x1p50);
    LONGHAUL_FIELD(objectives, .max = kMostGrid);
    LONGHAUL_FIELD(travels, .max = kMostGrid);
  }
};

}  // namespace longhaul::sync::skewscout
