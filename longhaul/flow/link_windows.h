#pragma once
// The times when each link can work on a plan of trees. A tree gives a link nothing before its
// first piece has arrived there, and after the link its last piece still has a path to travel. A
// link whose traffic arrives late and still has a long path ahead begins late and must end early. A
// pure function.
#include <cstddef>
#include <vector>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

struct PieceTimes {
  double bytes = 0;         // length of a vector
  std::vector<double> way;  // seconds of a piece over each ordered pair, by row
};

// Returns the seconds until the vector is complete, if no link ever waits between its first and its
// last piece. This is the longest time of any link: (bytes that arrive there after some time, and
// have at least some path ahead) / its rate + that time + that path.
double time_through(const std::vector<TwoTrees>&, const Capacities&, const PieceTimes&);

// Returns the trees with the shares by which the vector is complete soonest: a linear programme.
// Trees with less than `least` of the vector are left out. Empty: no solution was found.
std::vector<TwoTrees> soonest_shares(std::vector<TwoTrees>, const Capacities&, const PieceTimes&,
                                     double least);

}  // namespace longhaul::flow
