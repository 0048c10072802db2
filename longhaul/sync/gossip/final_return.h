#pragma once
// FinalMean is how a run without a common model ends: all live workers average the models that they
// end with, exactly and with equal weights, through the job's overlay, and hold the mean. It is the
// output of the published algorithms. Once in a run.
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "longhaul/core/overlay.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync::gossip {

class FinalMean {
 public:
  explicit FinalMean(std::unique_ptr<Overlay> overlay) : overlay_(std::move(overlay)) {
    LH_CHECK(overlay_);
  }
  // Owned by the strategy, as its first child: a node without a learner serves it as Relay does.
  Overlay& overlay() { return *overlay_; }
  // Gives params(); without `gives` it takes part and has no model to give. `below`: the same turn
  // as the overlay sees it. An Error: not finite.
  Status begin(Turn& turn, Turn below, bool gives = true) {
    return overlay_->begin({}, {},
                           {.values = turn.params(),
                            .length = turn.place().layout->size(),
                            .contributes = gives,
                            .exact = true},
                           below);
  }
  // True, once: params() is the mean.
  bool take(Turn& turn) {
    const auto mean = overlay_->poll({});
    if (!mean) return false;
    LH_CHECK(mean->values.size() == turn.params().size() || mean->counted.empty());
    if (!mean->counted.empty()) std::ranges::copy(mean->values, turn.params().begin());
    return true;
  }
  std::string waiting_for() const { return overlay_->waiting_for(); }

 private:
  const std::unique_ptr<Overlay> overlay_;
};

// FinalReturn is how a worker that has come back comes to the model that the others end with
// (final_mean.h): it takes part in their mean, with or without a model of its own. If the mean was
// formed before it came, it asks the senior worker, which answers when it has ended itself.
class FinalReturn final : public Machine {
  static void archive_final(Archive& ar, Turn& turn) {
    ar.expect("final model");
    ar.floats(turn.params());
  }

 public:
  struct FinalAsked {
    LONGHAUL_MESSAGE(1, "final_asked");
    Epoch epoch = 0;  // in which the sender came back
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<FinalAsked>;

  explicit FinalReturn(FinalMean& mean) : mean_(mean) { own(transfer_, {1, "state transfer"}); }

  // At the end of all rounds: gives params() to the mean. An Error: not finite.
  Status begin(Turn& turn, Turn overlay) {
    return turn.place().comes_back() ? Status(Ok{}) : mean_.begin(turn, overlay);
  }
  // In every turn from then on: true, once: params() is the final model. `gives`: at a worker that
  // has come back, its own is one of the run's. `overlay`: the turn as the overlay sees it. An
  // Error: nobody is left who has the final model, or values that are not finite.
  Result<bool> take(bool gives, Turn& turn, Turn overlay) {
    if (turn.place().comes_back()) return follow(gives, turn, overlay);
    return mean_.take(turn);
  }
  // take() of a worker that has come back, without begin().
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
    if (asking_.empty() || !is_senior(turn)) return;
    transfer_.send(
        std::exchange(asking_, {}), 0, true, [&](Archive& ar) { archive_final(ar, turn); },
        within(transfer_, turn));
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
