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
    visit(Field{.name = "epoch"}, self.epoch);
    visit(Field{.name = "travel", .max = 0x1p40}, self.travel);
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
    visit(Field{.name = "kind", .max = 3}, self.kind);
    visit(Field{.name = "epoch"}, self.epoch);
    visit(Field{.name = "travel", .max = 0x1p40}, self.travel);
    visit(Field{.name = "model_of"}, self.model_of);
    visit(Field{.name = "correct", .max = 0x1p40}, self.correct);
    visit(Field{.name = "samples", .max = 0x1p40}, self.samples);
    visit(Field{.name = "is_finite"}, self.is_finite);
    visit(Field{.name = "exchanges", .min = 0, .max = 0x1p40}, self.exchanges);
    visit(Field{.name = "steps", .max = 0x1p40}, self.steps);
    visit(Field{.name = "index", .max = kMostGrid - 1}, self.index);
    visit(Field{.name = "from_step", .max = 0x1p50}, self.from_step);
    visit(Field{.name = "next_at", .max = 0x1p50}, self.next_at);
    visit(Field{.name = "objectives", .max = kMostGrid}, self.objectives);
    visit(Field{.name = "travels", .max = kMostGrid}, self.travels);
  }
};

}  // namespace longhaul::sync::skewscout
