#include "longhaul/sync/gossip/neighbours.h"

#include <algorithm>

namespace longhaul::sync::gossip {

Neighbours::Weights Neighbours::weights(std::string_view kind, std::uint32_t degree,
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

void Neighbours::enter(const Weights& weights, Round mine, bool all_in) {
  mine_ = mine;
  edges_.clear();
  for (const auto& [rank, weight] : weights) {
    Edge& edge = edges_[rank];
    edge.weight = weight;
    edge.next = mine;
    if (all_in) edge.first = mine;
  }
}

void Neighbours::begin(Round mine) {
  mine_ = mine;
  for (auto& [rank, edge] : edges_) edge.next = edge.first ? std::max(mine, *edge.first) : mine;
  for (auto& [rank, edge] : edges_)
    if (edge.first) edge.first = edge.next;
}

std::vector<Rank> Neighbours::untold(const std::vector<Rank>& of) const {
  std::vector<Rank> ranks;
  for (const Rank rank : of)
    if (!edges_.at(rank).first) ranks.push_back(rank);
  return ranks;
}

Round Neighbours::latest(const std::vector<Rank>& of, Round least) const {
  for (const Rank rank : of) least = std::max(least, edges_.at(rank).first.value_or(0));
  return least;
}

std::vector<Rank> Neighbours::all() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, edge] : edges_) ranks.push_back(rank);
  return ranks;
}

Status Neighbours::admit_join(Rank from) const {
  const auto found = edges_.find(from);
  if (found == edges_.end()) return malformed("the round of a rank that is no neighbour");
  if (found->second.first) return malformed("a neighbour tells its round for the second time");
  return Ok{};
}

void Neighbours::join(Rank from, Round theirs) {
  Edge& edge = edges_.at(from);
  edge.first = edge.next = std::max(mine_, theirs);
}

// A neighbour is at most one round ahead: it needs this worker's model of each round. Beyond the
// first round of an edge, which may be far ahead of a worker that is behind.
Status Neighbours::admit_model(Rank from, Round round, Round now) {
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

void Neighbours::keep(Rank from, NeighbourModel model) {
  edges_.at(from).models.push_back(std::move(model));
}

std::vector<Rank> Neighbours::in(Round round) const {
  std::vector<Rank> ranks;
  for (const auto& [rank, edge] : edges_)
    if (edge.first && *edge.first <= round) ranks.push_back(rank);
  return ranks;
}

std::vector<Rank> Neighbours::missing(Round round) const {
  std::vector<Rank> ranks;
  for (const auto& [rank, edge] : edges_) {
    const bool is_here = !edge.models.empty() && edge.models.front().round == round;
    if (!edge.first || (*edge.first <= round && !is_here)) ranks.push_back(rank);
  }
  return ranks;
}

NeighbourModel Neighbours::take(Rank rank, Round round) {
  auto& models = edges_.at(rank).models;
  LH_CHECK(!models.empty() && models.front().round == round);
  NeighbourModel model = std::move(models.front());
  models.pop_front();
  return model;
}

}  // namespace longhaul::sync::gossip
