#pragma once
// The undirected graphs along which workers mix their models, and the weights of that, as pure
// functions of the number of workers.
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace longhaul::sync::gossip {

// The neighbours of each of n nodes, ascending, without itself. Symmetric and connected.
using Graph = std::vector<std::vector<std::uint32_t>>;
// Bytes per second from a node to another. Null: equal for all pairs.
using Rates = std::function<double(std::uint32_t from, std::uint32_t to)>;

Graph ring(std::uint32_t n);
// A grid that is closed in both directions, as square as n allows; of a prime number, a ring.
Graph torus(std::uint32_t n);
// i and i + 2^k mod n, for all 2^k < n: degree up to 2 log2(n), diameter at most log2(n).
//   Assran et al., "Stochastic gradient push", ICML 2019, section 4; here in both directions.
Graph exponential(std::uint32_t n);
Graph complete(std::uint32_t n);
// The fastest tree that spans all nodes, and the fastest of all other pairs, with up to `degree`
// (at least 2) neighbours for each node. A pair is as fast as the slower of its two directions;
// pairs of equal rate are taken in the order of their nodes.
Graph best_rate(std::uint32_t n, const Rates&, std::uint32_t degree);

// By its name in job files: "ring", "torus", "exponential", "complete", "best_rate".
Graph make_graph(std::string_view kind, std::uint32_t n, const Rates&, std::uint32_t degree);

// W_ij = 1 / (1 + max(d_i, d_j)) of an edge. With W_ii = 1 - sum_j W_ij the matrix is symmetric and
// doubly stochastic.
//   Xiao and Boyd, "Fast linear iterations for distributed averaging", Systems and Control Letters
//   2004, section 4 (Metropolis-Hastings weights).
double metropolis(const Graph&, std::uint32_t i, std::uint32_t j);

}  // namespace longhaul::sync::gossip
