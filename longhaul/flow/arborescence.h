#pragma once
// The cheapest tree that leads from a root to every node of a complete directed graph (Chu and Liu
// 1965; Edmonds, "Optimum branchings", 1967), and the same tree made shallower.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::flow {

// The node before each on its way from the root; the root's is itself.
using Parents = std::vector<std::uint32_t>;

// `costs` by row, from a node to another, finite; the diagonal is not read. Of equally cheap edges
// the one from the lowest node is taken.
Parents cheapest_arborescence(std::span<const double> costs, std::uint32_t nodes,
                              std::uint32_t root);

// Hangs nodes elsewhere while that lessens the sum of all edges' costs and, `weight` times, of the
// lengths of all nodes' ways from the root. `lengths` by row, >= 0. What it answers with is a tree
// still; it need not be the best.
void make_shallower(Parents&, std::span<const double> costs, std::span<const double> lengths,
                    double weight);

// Of each node's way from the root.
std::vector<double> path_lengths(const Parents&, std::span<const double> lengths);

}  // namespace longhaul::flow
