#pragma once
// What a node keeps of one (group, range): its own contribution to the round under way, and the
// newest mean, which is kept for those who may have to fetch it.
#include <map>
#include <optional>

#include "longhaul/overlay/attempt.h"

namespace longhaul::overlay {

// A mean that is put together piece by piece. At most one is kept per sequence: the one of the last
// round, until the first piece of the next shows that all members have the last.
struct Mean {
  bool kept = false;  // false: nothing here
  Round round = 0;
  std::vector<float> values;  // phantom: none
  std::vector<bool> have;     // by piece
  std::size_t missing = 0;
  bool rostered = false;
  std::vector<Rank> counted;
  double weight = 0;
  Epoch epoch = 0;  // that it was formed in

  bool whole() const { return kept && rostered && (missing == 0 || counted.empty()); }
  void state(auto& ar) { ar(kept, round, values, have, missing, rostered, counted, weight, epoch); }
};

struct Sequence {
  std::uint32_t group = 0;
  std::uint32_t range = 0;
  bool exact = false;
  Grid grid;
  std::map<Round, std::unique_ptr<Plan>> plans;  // of the epoch under way, by their first round

  Round next = 0;    // rounds whose mean this node has; a server that takes no part: has reduced
  Round lowest = 0;  // rounds below are over
  // A node that has come back, and has not had a mean of it yet: `next` is what others say.
  bool borrowed = false;
  // This node's contribution to round `next`.
  bool begun = false;
  bool held = false;  // the topology keeps this node from giving it
  std::vector<float> values;
  double weight = 0;       // 0: none
  std::vector<bool> sent;  // pieces whose part went out in the attempt under way
  Mean mean;
  bool outcome = false;        // mean is for poll()
  std::optional<Rank> source;  // from whom round `next` is being fetched
  std::map<Round, std::unique_ptr<Attempt>> attempts;

  VectorId key(Round round) const { return {round, group, range}; }
  CodecKey vector(Round round, Rank origin) const { return {key(round), origin}; }
};

}  // namespace longhaul::overlay
