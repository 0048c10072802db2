#pragma once
// FinalReturn is how a worker that has come back comes to the model that the others end with
// (final_mean.h): it takes part in their mean, with or without a model of its own. If the mean was
// formed before it came, it asks the senior worker, which answers when it has ended itself.
#include <optional>
#include <set>

#include "longhaul/sync/gossip/final_mean.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync::gossip {

class FinalReturn final : public Machine {
  static void archive_final(Archive& ar, Turn& turn) {
    ar.expect("final model");
    ar.floats(turn.params());
  }

 public:
  struct FinalAsked {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "final_asked";
    Epoch epoch = 0;  // in which the sender came back
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<FinalAsked>;

  explicit FinalReturn(FinalMean& mean) : mean_(mean) { own(transfer_, {1, "state transfer"}); }

  // At a worker that has come back, instead of FinalMean::begin() and take(); in every turn: true,
  // once: params() is the final model. `gives`: its own is one of the run's. `overlay`: the turn as
  // the overlay sees it. An Error: nobody is left who has the final model, or values that are not
  // finite.
  Result<bool> follow(bool gives, Turn& turn, Turn overlay) {
    if (const StateTransfer::TransferredState* received = transfer_.received()) {
      Archive ar(*received->bytes);
      archive_final(ar, turn);
      const Status read = ar.finish();
      transfer_.drop_received();
      if (!read)
        return malformed("the final model that was received is none of this job: " +
                         read.error().what);
      return true;
    }
    const Rank senior = senior_worker(turn.place(), turn.view());
    if (senior == turn.self() && (missed_ || !gives))
      return unavailable("all sites that had the final model are lost; resume from a checkpoint");
    if (!begun_) {
      const auto next = mean_.overlay().next_round(0, 0);
      if (!next) return false;
      missed_ = *next > 0;
      if (!missed_) LH_TRY(mean_.begin(turn, overlay, gives));
      begun_ = true;
    }
    if (!missed_) return mean_.take(turn);
    if (asked_of_ == senior) return false;
    asked_of_ = senior;
    turn.send(senior, FinalAsked{turn.view().since(turn.self())}, {}, kControl);
    return false;
  }

  // At a worker that has ended, in every turn: params() is the final model.
  void serve(Turn& turn) {
    if (asking_.empty() || senior_worker(turn.place(), turn.view()) != turn.self()) return;
    Archive ar;
    archive_final(ar, turn);
    const Bytes bytes = share(ar.take());
    Turn below = within(transfer_, turn);
    for (const Rank to : std::exchange(asking_, {})) transfer_.send(to, {0, true, bytes}, below);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const FinalAsked& asked) -> Status {
      if (asked.epoch == 0 || asked.epoch != turn.view().since(from) ||
          !turn.place().member(from).is(Role::worker))
        return malformed("the final model is asked for by one that has not come back");
      asking_.insert(from);
      return Ok{};
    });
  }

  // At one that has come back the overlay's exchange of all workers begins anew with each change of
  // them and of its servers.
  void on_view(const View& before, Turn& turn) override {
    const View& view = turn.view();
    std::erase_if(asking_, [&](Rank rank) { return view.since(rank) != before.since(rank); });
    for (Rank rank = 0; rank < turn.place().size(); ++rank) {
      const Member& member = turn.place().member(rank);
      if (!member.is(Role::worker) && !member.is(Role::server)) continue;
      if (before.has(rank) != view.has(rank) || before.since(rank) != view.since(rank))
        begun_ = false;
    }
  }

  void state(Archive& ar) override { ar(begun_, missed_, asked_of_, asking_); }

 private:
  FinalMean& mean_;
  StateTransfer transfer_;
  bool begun_ = false, missed_ = false;
  std::optional<Rank> asked_of_;
  std::set<Rank> asking_;  // at the others
};

}  // namespace longhaul::sync::gossip
