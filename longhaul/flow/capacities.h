#pragma once
// A Wan as dense numbers: what each link carries, in bytes a second; infinite: unlimited.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "longhaul/flow/wan.h"

namespace longhaul::flow {

// What changes with time, at its highest rates.
Wan at_highest(Wan);

// The rates of a moment, and no traces any more. `seed`: the run's, of which redrawn rates come;
// the work grows with the changes before `time`.
Wan at_time(Wan, std::uint64_t seed, std::chrono::nanoseconds time);

// The network between some sites, in this order, one node each; what changes with time at its
// highest rates.
Wan among(const Wan&, const std::vector<std::uint32_t>& sites);

struct Capacities {
  explicit Capacities(const Wan&);

  double pair(std::size_t from, std::size_t to) const { return pairs[from * sites + to]; }
  double largest() const;  // of all that are finite; 0: none is
  // What can leave the site, through its uplink and its pairs; and what can come to it.
  double out(std::size_t site) const;
  double in(std::size_t site) const;
  // An upper limit of what all pairs from a member to another site carry together. `members`: one
  // flag a site. Never less than the true capacity of the cut: the least of what the uplinks of
  // one side, the downlinks of the other, and pairs with their shared links let through.
  double cut(const std::vector<bool>& members) const;

  std::size_t sites = 0;
  std::vector<double> up, down;
  std::vector<double> pairs;  // by row; 0 on the diagonal
  std::vector<Wan::Shared> shared;
};

}  // namespace longhaul::flow
