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
  static Weights weights(std::string_view graph, std::uint32_t degree,
                         const std::function<double(Rank, Rank)>& rates,
                         const std::vector<Rank>& workers, Rank self);

  // A new view, which this worker enters in round `mine`. All models of the view before are
  // dropped. `all_in`: everybody begins in that round and nobody has to tell.
  void enter(const Weights&, Round mine, bool all_in);
  std::vector<Rank> all() const;

  // A worker that has returned begins in this round, which it did not know when it entered.
  void begin(Round mine);
  // A neighbour says in which round it entered. Malformed: it is none, or has said it.
  Status admit_join(Rank) const;
  void join(Rank, Round theirs);
  // A neighbour announces its model of a round, of which admit_model() is asked once. Malformed:
  // it is not the next one of this edge. `now`: the round that this worker is in.
  Status admit_model(Rank, Round, Round now);
  void keep(Rank, NeighbourModel);

  // Of these neighbours: who has not told its round; and the latest of the rounds told, or `least`.
  std::vector<Rank> untold(const std::vector<Rank>& of) const;
  Round latest(const std::vector<Rank>& of, Round least) const;
  // Neighbours with which this round is mixed, as far as they have told.
  std::vector<Rank> in(Round) const;
  // Those whose model of this round, or whose first round, is not here.
  std::vector<Rank> missing(Round) const;
  double weight(Rank rank) const { return edges_.at(rank).weight; }
  // The model of this round, once.
  NeighbourModel take(Rank, Round);
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
