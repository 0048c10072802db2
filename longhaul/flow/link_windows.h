#pragma once
// When each link can work on a plan of trees: a tree gives it nothing before its first piece has
// come there, and behind its last piece that piece's way goes on. A link that carries only what is
// last up and down long ways begins late and has to end early. A pure function.
#include <cstddef>
#include <vector>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

struct PieceTimes {
  double bytes = 0;         // of a vector
  std::vector<double> way;  // seconds of a piece over each ordered pair, by row
};

// Seconds until the vector is through, if no link ever waits between its first and its last piece:
// the longest of any link, that of (the bytes that it gets no sooner than some time, and that have
// no less than some way to go) / its rate + that time + that way.
double time_through(const std::vector<TwoTrees>&, const Capacities&, const PieceTimes&);

// These trees with the shares by which the vector is through soonest: a linear programme. Trees
// with less than `least` of the vector are left out. Empty: no solution was found.
std::vector<TwoTrees> soonest_shares(std::vector<TwoTrees>, const Capacities&, const PieceTimes&,
                                     double least);

}  // namespace longhaul::flow
