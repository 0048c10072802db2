#pragma once
// Maximum flow and minimum cut between two nodes of a dense graph.
#include <cstddef>
#include <vector>

namespace longhaul::flow {

struct MaxFlow {
  double value = 0;
  // Minimum cuts when the flow is less than was asked for: the nodes that the source does not
  // reach any more (the sink's side at its largest), and those that reach the sink (at its
  // smallest). Flags by node; empty otherwise.
  std::vector<bool> unreached, reaching;
};

// From node `source` to node `sink` of `nodes` nodes; capacities by row. Ends early when the flow
// reaches `enough`. Augments along shortest paths, so it ends whatever the numbers are.
MaxFlow max_flow(std::vector<double> capacities, std::size_t nodes, std::size_t source,
                 std::size_t sink, double enough);

}  // namespace longhaul::flow
