#pragma once
// A Wan as dense arrays of link rates, in bytes per second; infinite: unlimited.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "longhaul/flow/wan.h"

namespace longhaul::flow {

// A copy with each trace replaced by its highest rate.
Wan at_highest(Wan);

// A copy with the rates at `time` and no traces. `seed`: the run's, for redrawn rates. The cost
// grows with the number of changes before `time`.
Wan at_time(Wan, std::uint64_t seed, std::chrono::nanoseconds time);

// The network between some sites, in this order, one node each; traces at their highest rates.
Wan among(const Wan&, const std::vector<std::uint32_t>& sites);

// A copy with all rates, those of traces too, divided by a number above 0.
Wan divided(Wan, double by);

struct Capacities {
  explicit Capacities(const Wan&);

  double pair(std::size_t from, std::size_t to) const { return pairs[from * sites + to]; }
  double largest() const;  // of all that are finite; 0: none is
  // The most that can leave the site through its uplink and pairs, and the most that can arrive.
  double out(std::size_t site) const;
  double in(std::size_t site) const;
  // An upper limit of the rate of all pairs from a member to another site. `members`: one flag a
  // site. At least the true capacity of the cut: the minimum over the uplinks of one side, the
  // downlinks of the other, and the pairs with their shared links.
  double cut(const std::vector<bool>& members) const;

  std::size_t sites = 0;
  std::vector<double> up, down;
  std::vector<double> pairs;  // by row; 0 on the diagonal
  std::vector<Wan::Shared> shared;
};

}  // namespace longhaul::flow
