#pragma once
// Neighbours is what a worker that mixes in rounds knows of its neighbours in the graph of a view:
// the weight of each edge, the round from which the edge counts, and models that wait to be mixed.
//
// After a loss all workers compute the same new graph, but they enter the view in different rounds.
// Each tells its new neighbours the round that it is in, and an edge counts from the later round of
// its two ends on. In rounds before that its weight stays on the diagonal, at both ends. A worker
// mixes no round before it has heard the round of every neighbour. So no worker waits for a round
// that its neighbour has behind it, the one with the fewest rounds can always go on, and from the
// first round on that all workers mix in the view the weights are doubly stochastic.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/place.h"
#include "longhaul/core/work.h"
#include "longhaul/sync/gossip/graph.h"

namespace longhaul::sync::gossip {

struct NeighbourModel {
  Round round = 0;
  bool is_whole = true;  // else the difference to the model before
  double samples = 0;    // header of the model
  Snapshot values;       // of the whole layout; a phantom's are empty
  void state(Archive& ar) {
    ar(round, is_whole, samples);
    archive_snapshot(ar, values);
  }
};

class Neighbours {
 public:
  // The neighbours of `self` and W_ij, in the graph of these workers (ascending ranks).
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
    const auto found = std::lower_bound(workers.begin(), workers.end(), self);
    LH_CHECK(found != workers.end() && *found == self);
    const auto i = std::uint32_t(found - workers.begin());
    Weights weights;
    for (const std::uint32_t j : graph[i]) weights[workers[j]] = metropolis(graph, i, j);
    return weights;
  }

  // A new view, which this worker enters in round `mine`. All models of the view before are
  // dropped. `all_in`: everybody begins in that round and nobody has to tell.
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

  // A worker that has returned begins in this round, which it did not know when it entered.
  void begin(Round mine) {
    mine_ = mine;
    for (auto& [rank, edge] : edges_) edge.next = edge.first ? std::max(mine, *edge.first) : mine;
    for (auto& [rank, edge] : edges_)
      if (edge.first) edge.first = edge.next;
  }

  // A neighbour says in which round it entered. Malformed: it is none, or has said it.
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

  // A neighbour announces its model of a round, of which admit_model() is asked once. Malformed:
  // it is not the next one of this edge. `now`: the round that this worker is in.
  // A neighbour is at most one round ahead: it needs this worker's model of each round. Beyond the
  // first round of an edge, which may be far ahead of a worker that is behind.
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

  // Of these neighbours: who has not told its round; and the latest of the rounds told, or `least`.
  std::vector<Rank> untold(const std::vector<Rank>& of) const {
    std::vector<Rank> ranks;
    for (const Rank rank : of)
      if (!edges_.at(rank).first) ranks.push_back(rank);
    return ranks;
  }

  Round latest(const std::vector<Rank>& of, Round least) const {
    for (const Rank rank : of) least = std::max(least, edges_.at(rank).first.value_or(0));
    return least;
  }

  // Neighbours with which this round is mixed, as far as they have told.
  std::vector<Rank> in(Round round) const {
    std::vector<Rank> ranks;
    for (const auto& [rank, edge] : edges_)
      if (edge.first && *edge.first <= round) ranks.push_back(rank);
    return ranks;
  }

  // Those whose model of this round, or whose first round, is not here.
  std::vector<Rank> missing(Round round) const {
    std::vector<Rank> ranks;
    for (const auto& [rank, edge] : edges_) {
      const bool is_here = !edge.models.empty() && edge.models.front().round == round;
      if (!edge.first || (*edge.first <= round && !is_here)) ranks.push_back(rank);
    }
    return ranks;
  }

  double weight(Rank rank) const { return edges_.at(rank).weight; }
  // The model of this round, once.
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
    std::optional<Round> first;  // round that counts; unset: the neighbour has not told its own
    Round next = 0;              // of the model that comes next
    std::deque<NeighbourModel> models;  // at most two
    void state(Archive& ar) { ar(weight, first, next, models); }
  };
  Round mine_ = 0;
  std::map<Rank, Edge> edges_;
};

}  // namespace longhaul::sync::gossip
