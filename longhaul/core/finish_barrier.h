#pragma once
// Barrier at the end of the run: a node serves relays, fetches and acknowledgements until all
// members have finished. Each node reports to the lowest live rank, which informs all nodes. 2n
// messages; each new view repeats the reports.
#include <algorithm>
#include <map>

#include "longhaul/core/machine.h"

namespace longhaul {

class FinishBarrier final : public Machine {
 public:
  struct Done {
    LONGHAUL_MESSAGE(1, "done");
    Epoch epoch = 0;
    LONGHAUL_FIELDS(epoch)
  };
  struct AllDone {
    LONGHAUL_MESSAGE(2, "all_done");
    Epoch epoch = 0;
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<Done, AllDone>;

  // Called when this node has finished; idempotent.
  void arrive(Turn& turn) {
    if (arrived_) return;
    arrived_ = true;
    tell(turn);
  }

  bool arrived() const { return arrived_; }
  bool complete() const { return complete_; }  // all members have finished
  std::string waiting_for(const View& view) const {
    if (!arrived_ || complete_) return "";
    std::string text = "the end of the run at ranks";
    for (Rank rank : view.live)
      if (!done_.contains(rank)) text += " " + std::to_string(rank);
    return text;
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) -> Status {
      if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Done>) {
        note(from, m.epoch, turn);
      } else {
        // A returned node has its own work to finish, and reports then.
        if (!arrived_ || complete_) return Ok{};
        complete_ = true;
        // The sender may fail midway: forward the message to the next two nodes, so that it reaches
        // all.
        const auto& live = turn.view().live;
        const auto me = std::ranges::lower_bound(live, turn.self()) - live.begin();
        for (std::size_t step = 1; step <= 2 && step < live.size(); ++step) {
          const Rank next = live[(std::size_t(me) + step) % live.size()];
          if (next != from) turn.send(next, m, {}, kControl);
        }
      }
      return Ok{};
    });
  }

  void on_view(const View&, Turn& turn) override {
    // A returned node has work to do again.
    for (const auto& [rank, epoch] : turn.view().returned)
      if (const auto told = done_.find(rank); told != done_.end() && told->second < epoch)
        done_.erase(told);
    // The awaited node may be lost, and the lowest rank may be new or returned: nodes that have
    // finished report again.
    if (arrived_) tell(turn);
  }

  void state(Archive& ar) override { ar(arrived_, complete_, done_); }

 private:
  void tell(Turn& turn) {
    if (turn.view().lowest() == turn.self()) return note(turn.self(), turn.view().epoch, turn);
    turn.send(turn.view().lowest(), Done{turn.view().epoch}, {}, kControl);
  }

  void note(Rank rank, Epoch epoch, Turn& turn) {
    Epoch& told = done_[rank];
    told = std::max(told, epoch);
    if (complete_) {  // the node returned when the others had finished
      if (rank != turn.self()) turn.send(rank, AllDone{turn.view().epoch}, {}, kControl);
      return;
    }
    if (done_.size() < turn.view().live.size()) return;  // no search among thousands of nodes
    for (Rank live : turn.view().live)
      if (!done_.contains(live)) return;
    complete_ = true;
    for (Rank live : turn.view().live)
      if (live != turn.self()) turn.send(live, AllDone{turn.view().epoch}, {}, kControl);
  }

  bool arrived_ = false;
  bool complete_ = false;
  std::map<Rank, Epoch> done_;  // at the lowest rank: epoch of each node's report
};

}  // namespace longhaul
