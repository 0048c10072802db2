#pragma once
// Newcomers are the workers that have returned and may have no model yet, as all workers know them.
// The senior worker sends its state to each of them, once; if it is lost, the next senior does.
#include <set>

#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync::gossip {

class Newcomers {
 public:
  // Called in on_view.
  void on_view(const Turn& turn) {
    const View& view = turn.view();
    std::erase_if(waiting_, [&](Rank rank) { return !view.has(rank); });
    std::erase_if(was_sent_, [&](Rank rank) { return !view.has(rank); });
    for (const auto& [rank, epoch] : view.returned) {
      if (epoch != view.epoch || !turn.place().member(rank).is(Role::worker)) continue;
      waiting_.insert(rank);
      was_sent_.erase(rank);
    }
  }
  // Sends this node's model, as `write` archives it, to the newcomers that need it. `round`: the
  // model's round. Called at a node with a model whenever the model can be archived. `below`: the
  // turn as the transfer sees it. `beside_rounds`: beside the rounds, to one newcomer at a time.
  void hand_over(StateTransfer& transfer, Round round, const Turn& turn, Turn below, auto&& write,
                 bool beside_rounds = false) {
    transfer.send(take_owed(transfer, beside_rounds, turn), round, false, write, below,
                  beside_rounds);
  }
  // Returns true if the worker may have no model yet.
  bool has(Rank rank) const { return waiting_.contains(rank); }
  // Returns an Error if no node is left that can send a model to this node, which has none.
  static Status check_sender(const Turn& turn) {
    if (!is_senior(turn)) return Ok{};
    return unavailable("all sites that knew the model are lost; resume from a checkpoint");
  }
  void state(Archive& ar) { ar(waiting_, was_sent_); }

 private:
  // Returns the ranks to which this node must send its state now, once each. `only_first`: that of
  // the worker that has waited longest.
  std::set<Rank> take_owed(const StateTransfer& transfer, bool only_first, const Turn& turn) {
    std::erase_if(waiting_,
                  [&](Rank rank) { return rank == turn.self() || transfer.has_state(rank); });
    std::set<Rank> owed;
    if (waiting_.empty() || !is_senior(turn)) return owed;
    const auto since = [&](Rank rank) { return turn.view().since(rank); };
    const Rank first = *std::ranges::min_element(waiting_, {}, since);
    for (const Rank rank : waiting_)
      if (rank != turn.self() && (rank == first || !only_first) && was_sent_.insert(rank).second)
        owed.insert(rank);
    return owed;
  }

  std::set<Rank> waiting_, was_sent_;
};

}  // namespace longhaul::sync::gossip
