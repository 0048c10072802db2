#pragma once
// Prints facts about a build as lines "NAME: VALUE"; scripts/check-unchanged compares them with
// those in tests/recorded/.

namespace longhaul::facts {

// The share `index` of `shares` of all cases: one strategy, overlay, transfer, codec and outer
// optimiser, and what happens in the run. Value: how the run ended, events, virtual time, and a
// hash of every action of every node with its time, and of the models at the end.
void print_traces(unsigned index, unsigned shares);

}  // namespace longhaul::facts
