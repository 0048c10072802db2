#pragma once
// Aggregation of one bucket, "minimal waiting delay": whoever is ready is paired with whoever else
// is. Who sends drops out, who receives becomes ready again; the server only receives. Sums so are
// added in the order of the pairs, never in that of arrival. Pure: no network, no clock.
#include <optional>
#include <vector>

#include "longhaul/overlay/tsengine_choice.h"
#include "longhaul/overlay/tsengine_slots.h"

namespace longhaul::overlay::tsengine {

struct Pair {
  Rank from = 0;
  Rank to = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

class Gather {
 public:
  Gather() = default;
  // The server is ready from the start.
  explicit Gather(Rank server) : server_(server), ready_{server} {}

  void ready(Rank);
  bool is_ready(Rank) const;
  // The first two who are ready, in the order in which they became so, with a free slot each. Of
  // two workers the one with the faster link to the other sends; of equal ones the later one.
  std::optional<Pair> match(const Slots&, const Rate&);
  void close() { ready_.clear(); }  // all are counted
  void state(Archive& ar) { ar(server_, ready_); }

 private:
  Pair pair(Rank first, Rank second, const Rate&) const;

  Rank server_ = 0;
  std::vector<Rank> ready_;  // in the order in which they became so
};

}  // namespace longhaul::overlay::tsengine
