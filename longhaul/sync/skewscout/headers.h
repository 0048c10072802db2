#pragma once
// The headers of the two streams of sync/skewscout.h.
#include "longhaul/core/message.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::skewscout {

inline constexpr std::uint32_t kMostGrid = 64;

// With a site's parameters and buffers: its model visits another site.
struct TravelHeader {
  LONGHAUL_MESSAGE(0, "travel");  // not a message by itself: it is in one
  Epoch epoch = 0;
  Round travel = 0;
  LONGHAUL_FIELDS(epoch, (travel, .max = 0x1p40))
};

// The header of the stream of reports and decisions, which carries no vectors.
struct NoteHeader {
  LONGHAUL_MESSAGE(1, "note");
  enum class Kind : std::uint8_t {
    home,    // to the scout: the sender has scored its own model
    visit,   // to the scout: the sender has scored the model of `model_of`
    theta,   // from the scout: end of the travel, and the next index
    resume,  // from the scout, first in a view: the next travel is `travel`, at step `next_at`
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
  std::vector<double> objectives = {};      // one per index
  std::vector<std::uint64_t> travels = {};  // travel that measured each, plus one; 0: none
  LONGHAUL_FIELDS((kind, .max = 3), epoch, (travel, .max = 0x1p40), model_of,
                  (correct, .max = 0x1p40), (samples, .max = 0x1p40), is_finite,
                  (exchanges, .min = 0, .max = 0x1p40), (steps, .max = 0x1p40),
                  (index, .max = kMostGrid - 1), (from_step, .max = 0x1p50),
                  (next_at, .max = 0x1p50), (objectives, .max = kMostGrid),
                  (travels, .max = kMostGrid))
};

}  // namespace longhaul::sync::skewscout
