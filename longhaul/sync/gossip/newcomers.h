#pragma once
// Newcomers are the workers that have returned and may have no model yet, as all workers know them.
// The senior worker sends its state to each of them, once; if it is lost, the next senior does.
#include <set>

#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync::gossip {

class Newcomers {
 public:
  // In on_view.
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
  // At a node that has a model, whenever it can be written down: sends it to those who are owed it,
  // as `write` archives it, with the round that it is of.
  // `below`: the turn as the transfer sees it.
  void hand_over(StateTransfer& transfer, Round round, const Turn& turn, Turn below, auto&& write) {
    transfer.send(take_owed(transfer, turn), round, false, write, below);
  }
  // Is anybody left who can send this node, which has none, a model?
  static Status check_sender(const Turn& turn) {
    if (!is_senior(turn)) return Ok{};
    return unavailable("all sites that knew the model are lost; resume from a checkpoint");
  }
  void state(Archive& ar) { ar(waiting_, was_sent_); }

 private:
  // To whom this node is to send its state now. Each is named once.
  std::set<Rank> take_owed(const StateTransfer& transfer, const Turn& turn) {
    std::erase_if(waiting_, [&](Rank rank) { return transfer.has_state(rank); });
    std::set<Rank> owed;
    if (waiting_.empty() || !is_senior(turn)) return owed;
    for (const Rank rank : waiting_)
      if (rank != turn.self() && was_sent_.insert(rank).second) owed.insert(rank);
    return owed;
  }

  std::set<Rank> waiting_, was_sent_;
};

}  // namespace longhaul::sync::gossip
