#pragma once
// What the loops of a run tell each other beside it, so that all sites can say the same: scores,
// warnings, and why one leaves. They travel as messages of a machine that no node has.
#include <string>

#include "longhaul/core/message.h"
#include "longhaul/core/score_sum.h"

namespace longhaul::net {

inline const Path kLoop = Path().child(14);

// A report is scored: ScoreSum::Total.
struct Contributed {  // to the senior worker: the norm of what the sender contributes
  static constexpr std::uint16_t kKind = 3;
  static constexpr std::string_view kName = "contributed";
  Round round = 0;
  double norm = 0;
  LONGHAUL_FIELDS(round, norm)
};
struct Warns {  // to all
  static constexpr std::uint16_t kKind = 4;
  static constexpr std::string_view kName = "warns";
  static constexpr std::size_t kMostText = 1000;
  std::string text;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(text, .max = double(kMostText));
  }
};
struct Leaves {  // to all: the last words of a node that has failed
  static constexpr std::uint16_t kKind = 5;
  static constexpr std::string_view kName = "leaves";
  bool diverged = false;    // so that the run ends
  bool state_lost = false;  // nobody in its view has the state: all resume
  Epoch epoch = 0;          // of that view
  std::string why;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(diverged);
    LONGHAUL_FIELD(state_lost);
    LONGHAUL_FIELD(epoch);
    LONGHAUL_FIELD(why, .max = double(Warns::kMostText));
  }
};
struct Ends {  // to all: the digest of the model that a node of a finished run ends with
  static constexpr std::uint16_t kKind = 6;
  static constexpr std::string_view kName = "ends";
  std::uint64_t model = 0;
  LONGHAUL_FIELDS(model)
};
using LoopMessages = MessageList<ScoreSum::Total, Contributed, Warns, Leaves, Ends>;

}  // namespace longhaul::net
