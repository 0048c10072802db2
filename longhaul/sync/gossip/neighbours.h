#pragma once
// The graphs along which workers mix their models, with the weights of their edges. Neighbours is
// the record that a worker keeps of its neighbours in the graph of a view. An edge has a weight,
// the first round that it counts in, and the models that wait to be mixed.
//
// After a loss, all workers compute the same new graph, but they enter the view in different
// rounds. Each worker sends its round to its new neighbours, and an edge counts from the later
// round of its two ends on. In earlier rounds its weight is on the diagonal at both ends. A worker
// mixes no round before it knows the rounds of all neighbours. So no worker waits for a round that
// its neighbour has passed, and the worker with the fewest rounds can always continue. From the
// first round that all workers mix in the view, the weights are doubly stochastic.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/message.h"
#include "longhaul/core/place.h"
#include "longhaul/core/work.h"

namespace longhaul::sync {

struct DpsgdHeader {
  LONGHAUL_MESSAGE(0, "header");  // not a message by itself: it is in one
  enum class Kind : std::uint8_t {
    join,  // without a vector: the round in which the sender entered the view
    model  // model or difference that the sender mixes in this round
  };
  Kind kind = Kind::model;
  bool is_whole = true;  // else the difference to the model before
  Epoch epoch = 0;       // view of the graph
  Round round = 0;
  double samples = 0;  // sender's estimate of the samples per worker in the mean
  LONGHAUL_FIELDS((kind, .max = 1), is_whole, epoch, (round, .max = 0x1p50),
                  (samples, .min = 0, .max = 0x1p60))
};

namespace gossip {

// The neighbours of each of n nodes, ascending, without the node itself. Symmetric and connected.
using Graph = std::vector<std::set<std::uint32_t>>;
// Bytes per second from one node to another. Null: equal for all pairs.
using Rates = std::function<double(std::uint32_t from, std::uint32_t to)>;

inline void join(Graph& graph, std::uint32_t i, std::uint32_t j) {
  if (i == j) return;
  graph[i].insert(j);
  graph[j].insert(i);
}

// Union-find: returns the number of the tree that contains node i.
inline std::uint32_t tree_of(std::vector<std::uint32_t>& parents, std::uint32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

inline Graph ring(std::uint32_t n) {
  Graph graph(n);
  for (std::uint32_t i = 0; i < n; ++i) join(graph, i, (i + 1) % n);
  return graph;
}

// Returns a grid that is closed in both directions, as square as n allows; for a prime n, a ring.
inline Graph torus(std::uint32_t n) {
  std::uint32_t rows = 1;
  for (std::uint32_t r = 2; r * r <= n; ++r)
    if (n % r == 0) rows = r;
  const std::uint32_t columns = n / rows;
  Graph graph(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t row = i / columns, column = i % columns;
    join(graph, i, row * columns + (column + 1) % columns);
    join(graph, i, (row + 1) % rows * columns + column);
  }
  return graph;
}

// Returns the graph with edges from i to i + 2^k mod n, for all 2^k < n: degree up to 2 log2(n),
// diameter at most log2(n).
//   Assran et al., "Stochastic gradient push", ICML 2019, section 4; here in both directions.
inline Graph exponential(std::uint32_t n) {
  Graph graph(n);
  for (std::uint64_t hop = 1; hop < n; hop *= 2)
    for (std::uint32_t i = 0; i < n; ++i) join(graph, i, std::uint32_t((i + hop) % n));
  return graph;
}

inline Graph complete(std::uint32_t n) {
  Graph graph(n);
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = i + 1; j < n; ++j) join(graph, i, j);
  return graph;
}

// Returns the fastest tree that spans all nodes, and the fastest of all other pairs, with up to
// `degree` (at least 2) neighbours per node. The rate of a pair is the lower one of its two
// directions; pairs of equal rate are taken in the order of their nodes. Each tree keeps a node
// with fewer than two neighbours, so that any two trees can still be joined: the bound on the
// degree leaves no node out.
inline Graph best_rate(std::uint32_t n, const Rates& rates, std::uint32_t degree) {
  LH_CHECK(degree >= 2);
  std::vector<std::tuple<double, std::uint32_t, std::uint32_t>> pairs;  // fastest first
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = i + 1; j < n; ++j)
      pairs.emplace_back(rates ? -std::min(rates(i, j), rates(j, i)) : 0.0, i, j);
  std::ranges::sort(pairs);
  Graph graph(n);
  std::vector<std::uint32_t> parents(n);
  std::iota(parents.begin(), parents.end(), 0u);
  for (const bool spanning : {true, false}) {
    for (const auto& [rate, i, j] : pairs) {
      if (graph[i].size() >= degree || graph[j].size() >= degree || graph[i].contains(j)) continue;
      const std::uint32_t a = tree_of(parents, i), b = tree_of(parents, j);
      if (spanning && a == b) continue;
      parents[a] = b;
      join(graph, i, j);
    }
  }
  return graph;
}

// Returns a graph by its name in job files: "ring", "torus", "exponential", "complete",
// "best_rate".
inline Graph make_graph(std::string_view kind, std::uint32_t n, const Rates& rates,
                        std::uint32_t degree) {
  if (kind == "torus") return torus(n);
  if (kind == "exponential") return exponential(n);
  if (kind == "complete") return complete(n);
  if (kind == "best_rate") return best_rate(n, rates, degree);
  LH_CHECK(kind == "ring");
  return ring(n);
}

// Returns W_ij = 1 / (1 + max(d_i, d_j)) of an edge. With W_ii = 1 - sum_j W_ij the matrix is
// symmetric and doubly stochastic.
//   Xiao and Boyd, "Fast linear iterations for distributed averaging", Systems and Control Letters
//   2004, section 4 (Metropolis-Hastings weights).
inline double metropolis(const Graph& graph, std::uint32_t i, std::uint32_t j) {
  return 1.0 / double(1 + std::max(graph[i].size(), graph[j].size()));
}

struct NeighbourModel {
  Round round = 0;
  bool is_whole = true;  // else the difference to the model before
  double samples = 0;    // header of the model
  Snapshot values;       // whole layout; empty in a phantom job
  void state(Archive& ar) {
    ar(round, is_whole, samples);
    archive_snapshot(ar, values);
  }
};

class Neighbours {
 public:
  // The neighbours of `self` and W_ij, in the graph of `workers` (ascending ranks).
  using Weights = std::map<Rank, double>;
  static Weights weights(std::string_view kind, std::uint32_t degree,
                         const std::function<double(Rank, Rank)>& rates,
                         const std::vector<Rank>& workers, Rank self) {
    Rates by_number;
    if (rates)
      by_number = [&](std::uint32_t from, std::uint32_t to) {
        return rates(workers[from], workers[to]);
      };
    const Graph graph = make_graph(kind, std::uint32_t(workers.size()), by_number, degree);
    const auto found = std::ranges::lower_bound(workers, self);
    LH_CHECK(found != workers.end() && *found == self);
    const auto i = std::uint32_t(found - workers.begin());
    Weights weights;
    for (const std::uint32_t j : graph[i]) weights[workers[j]] = metropolis(graph, i, j);
    return weights;
  }

  // Enters a new view in round `mine` and drops all models of the view before. `all_in`: all
  // workers begin in that round, and no join message is needed.
  void enter(const Weights& weights, Round mine, bool all_in) {
    mine_ = mine;
    edges_.clear();
    for (const auto& [rank, weight] : weights) {
      Edge& edge = edges_[rank];
      edge.weight = weight;
      edge.next = mine;
      if (all_in) edge.first = mine;
    }
  }

  std::vector<Rank> all() const {
    std::vector<Rank> ranks;
    for (const auto& [rank, edge] : edges_) ranks.push_back(rank);
    return ranks;
  }

  // Begins in this round at a returned worker, which did not know the round in enter().
  void begin(Round mine) {
    mine_ = mine;
    for (auto& [rank, edge] : edges_) edge.next = edge.first ? std::max(mine, *edge.first) : mine;
    for (auto& [rank, edge] : edges_)
      if (edge.first) edge.first = edge.next;
  }

  // Returns Malformed if `from` is no neighbour, or has already sent its round.
  Status admit_join(Rank from) const {
    const auto found = edges_.find(from);
    if (found == edges_.end()) return malformed("the round of a rank that is no neighbour");
    if (found->second.first) return malformed("a neighbour tells its round for the second time");
    return Ok{};
  }

  void join(Rank from, Round theirs) {
    Edge& edge = edges_.at(from);
    edge.first = edge.next = std::max(mine_, theirs);
  }

  // Called once for each announced model of a neighbour. Returns Malformed if the model is not the
  // next one of its edge. `now`: this worker's round. A neighbour is at most one round ahead,
  // because it needs this worker's model of each round. That is counted from the first round of the
  // edge, which may be far ahead of a worker that is behind.
  Status admit_model(Rank from, Round round, Round now) {
    const auto found = edges_.find(from);
    if (found == edges_.end()) return malformed("a model of a rank that is no neighbour");
    Edge& edge = found->second;
    if (!edge.first) return malformed("a model before the round of its sender");
    if (round != edge.next || round > std::max(now, *edge.first) + 1)
      return malformed("the model of round " + std::to_string(round) + " where that of round " +
                       std::to_string(edge.next) + " is due");
    ++edge.next;
    return Ok{};
  }

  void keep(Rank from, NeighbourModel model) { edges_.at(from).models.push_back(std::move(model)); }

  // Returns those of the given neighbours that have not sent their round.
  std::vector<Rank> untold(const std::vector<Rank>& of) const {
    return those_of(of, [&](Rank rank) { return !edges_.at(rank).first; });
  }

  Round latest(const std::vector<Rank>& of, Round least) const {
    for (const Rank rank : of) least = std::max(least, edges_.at(rank).first.value_or(0));
    return least;
  }

  // Returns the neighbours mixed with in this round, of those that have sent their round.
  std::vector<Rank> in(Round round) const {
    std::vector<Rank> ranks;
    for (const auto& [rank, edge] : edges_)
      if (edge.first && *edge.first <= round) ranks.push_back(rank);
    return ranks;
  }

  // Returns the neighbours whose model of this round, or whose first round, has not arrived.
  std::vector<Rank> missing(Round round) const {
    std::vector<Rank> ranks;
    for (const auto& [rank, edge] : edges_) {
      const bool is_here = !edge.models.empty() && edge.models.front().round == round;
      if (!edge.first || (*edge.first <= round && !is_here)) ranks.push_back(rank);
    }
    return ranks;
  }

  double weight(Rank rank) const { return edges_.at(rank).weight; }
  // Removes the model of this round and returns it.
  NeighbourModel take(Rank rank, Round round) {
    auto& models = edges_.at(rank).models;
    LH_CHECK(!models.empty() && models.front().round == round);
    NeighbourModel model = std::move(models.front());
    models.pop_front();
    return model;
  }

  void state(Archive& ar) { ar(mine_, edges_); }

 private:
  struct Edge {
    double weight = 0;
    std::optional<Round> first;         // first round that counts; unset: not received yet
    Round next = 0;                     // round of the next model
    std::deque<NeighbourModel> models;  // at most two
    void state(Archive& ar) { ar(weight, first, next, models); }
  };
  Round mine_ = 0;
  std::map<Rank, Edge> edges_;
};

}  // namespace gossip
}  // namespace longhaul::sync
