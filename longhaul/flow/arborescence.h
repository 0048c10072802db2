#pragma once
// The cheapest tree that leads from a root to every node of a complete directed graph (Chu and Liu
// 1965; Edmonds, "Optimum branchings", 1967), and the same tree made shallower.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::flow {

// The parent of each node; the root is its own.
using Parents = std::vector<std::uint32_t>;

// `costs` by row, from a node to another, finite; the diagonal is not read. Of equally cheap edges
// the one from the lowest node is taken.
Parents cheapest_arborescence(std::span<const double> costs, std::uint32_t nodes,
                              std::uint32_t root);

// Moves nodes to other parents while that lowers the sum of all edge costs plus `weight` times the
// path lengths of all nodes from the root. `lengths` by row, >= 0. A local optimum.
void make_shallower(Parents&, std::span<const double> costs, std::span<const double> lengths,
                    double weight);

// The length of each node's path from the root.
std::vector<double> path_lengths(const Parents&, std::span<const double> lengths);

}  // namespace longhaul::flow
