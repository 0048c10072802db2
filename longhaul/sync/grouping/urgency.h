#pragma once
// Which updates a round waits for: of each worker the class of its update, by when its like came.
// Class 0: the round waits for it; 1: its group is not the slowest; 2: surplus.
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::grouping {

struct Need {                 // of a group
  std::vector<Rank> members;  // live ones, ascending
  std::uint64_t quota = 1;
  bool met = false;
};

class Urgencies {
 public:
  static constexpr double kSmoothing = 0.3;  // weight of a new time
  static constexpr double kSlowest = 0.9;    // of the slowest group's time: class 0 from here on
  static constexpr double kPatience = 1.5;   // times its own time: then another one is needed

  void given(Rank, Time now);  // the model
  void came(Rank, Time now);   // its update
  void lose(Rank);

  // Of a group the `quota` members of least T_i are needed, without those that are late and could
  // be replaced. Nobody is needed by a group that has met its quota. All are 0 while a time of
  // anybody's is not known: nothing can be said.
  std::map<Rank, std::uint8_t> classes(const std::vector<Need>&, Time now) const;
  // When one of these will be late.
  std::optional<Time> next_late(const std::vector<Need>&, Time now) const;
  void state(Archive& ar) { ar(given_, times_); }

 private:
  std::optional<Time> late_at(Rank) const;
  std::vector<Rank> needed(const Need&, Time now) const;

  std::map<Rank, Time> given_;    // since when each has the model that it works from
  std::map<Rank, double> times_;  // T_i, s
};

}  // namespace longhaul::sync::grouping
