#pragma once
// FinalMean is the end of a run without a common model. All live workers average their final models
// through the job's overlay, exactly and with equal weights, and hold the mean. This mean is the
// output of the published algorithms. With `of_senior` all take the senior worker's model instead.
// Used once per run.
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "longhaul/core/overlay.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync::gossip {

class FinalMean {
 public:
  explicit FinalMean(std::unique_ptr<Overlay> overlay, bool of_senior = false)
      : overlay_(std::move(overlay)), of_senior_(of_senior) {
    LH_CHECK(overlay_);
  }
  // Returns the overlay, the strategy's first child: a node without a learner serves it as Relay
  // does.
  Overlay& overlay() { return *overlay_; }
  // Contributes params(); takes part without a contribution if `gives` is false. `below`: the same
  // turn as the overlay sees it. `round`: that of take(). An Error: not finite.
  Status begin(Turn& turn, Turn below, bool gives = true, Round round = 0) {
    round_ = round;
    repeats_ = false;
    return average(turn, below, gives);
  }
  // Returns true once, when params() holds the mean. If the senior worker was lost before it had
  // contributed, the next one contributes to another round. An Error: not finite.
  Result<bool> take(Turn& turn, Turn below) {
    const auto mean = overlay_->poll({round_, 0, 0});
    if (!mean) return false;
    if (of_senior_ && mean->counted.empty()) {
      ++round_;
      repeats_ = true;
      LH_TRY(average(turn, below, true));
      return take(turn, below);
    }
    LH_CHECK(mean->values.size() == turn.params().size() || mean->counted.empty());
    if (!mean->counted.empty()) std::ranges::copy(mean->values, turn.params().begin());
    return true;
  }
  bool of_senior() const { return of_senior_; }
  // Returns true after an empty mean: this node takes part in the next one as all do.
  bool repeats() const { return repeats_; }
  std::string waiting_for() const { return overlay_->waiting_for(); }
  void state(Archive& ar) { ar(round_, repeats_); }

 private:
  Status average(Turn& turn, Turn below, bool gives) {
    return overlay_->begin({round_, 0, 0}, {},
                           {.values = turn.params(),
                            .length = turn.place().layout->size(),
                            .contributes = gives && (!of_senior_ || is_senior(turn)),
                            .exact = true},
                           below);
  }

  const std::unique_ptr<Overlay> overlay_;
  const bool of_senior_;
  Round round_ = 0;
  bool repeats_ = false;
};

// FinalReturn gets the final model to a returned worker. The worker takes part in the mean of the
// other workers, with or without a model of its own. If the mean was formed before the return, it
// asks the senior worker, which answers after its own end. With `of_senior`, where that mean may
// have been empty, it takes part in the next one as well.
class FinalReturn final : public Machine {
  static void archive_final(Archive& ar, Turn& turn) {
    ar.expect("final model");
    ar.floats(turn.params());
  }

 public:
  struct FinalAsked {
    LONGHAUL_MESSAGE(1, "final_asked");
    Epoch epoch = 0;  // epoch in which the sender returned
    LONGHAUL_FIELDS(epoch)
  };
  using Messages = MessageList<FinalAsked>;

  explicit FinalReturn(FinalMean& mean) : mean_(mean) { own(transfer_, {1, "state transfer"}); }

  // Called at the end of all rounds: contributes params() to the mean. An Error: not finite.
  Status begin(Turn& turn, Turn overlay) {
    return turn.place().comes_back() ? Status(Ok{}) : mean_.begin(turn, overlay);
  }
  // Called in every turn after begin(). Returns true once, when params() holds the final model.
  // `gives`: whether the model of a returned worker is one of the run's. `overlay`: the turn as the
  // overlay sees it. An Error: all workers with the final model are lost, or values are not finite.
  Result<bool> take(bool gives, Turn& turn, Turn overlay) {
    if (turn.place().comes_back()) return follow(gives, turn, overlay);
    return mean_.take(turn, overlay);
  }
  // take() at a returned worker, without begin().
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
    if (senior == turn.self() && ((missed_ && !mean_.repeats()) || !gives))
      return unavailable("all sites that had the final model are lost; resume from a checkpoint");
    if (!begun_) {
      const auto next = mean_.overlay().next_round(0, 0);
      if (!next) return false;
      missed_ = *next > 0;
      if (takes_part()) LH_TRY(mean_.begin(turn, overlay, gives, *next));
      begun_ = true;
    }
    if (missed_ && asked_of_ != senior) {
      asked_of_ = senior;
      turn.send(senior, FinalAsked{turn.view().since(turn.self())}, {}, kControl);
    }
    return takes_part() ? mean_.take(turn, overlay) : false;
  }
  std::string waiting_for() const {
    std::string text = takes_part() ? mean_.waiting_for() : "";
    if (missed_ && asked_of_)
      text +=
          (text.empty() ? "" : "; ") + ("the final model of rank " + std::to_string(*asked_of_));
    return text;
  }

  // Called in every turn at a worker that has ended: params() is the final model.
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

  // At a returned worker, the overlay restarts the exchange of all workers when workers or servers
  // change.
  void on_view(const View& before, Turn& turn) override {
    const View& view = turn.view();
    std::erase_if(asking_, [&](Rank rank) { return view.since(rank) != before.since(rank); });
    for (Rank rank = 0; rank < turn.place().size(); ++rank) {
      const Member& member = turn.place().member(rank);
      if (!member.is(Role::worker) && !member.is(Role::server)) continue;
      if (before.has(rank) != view.has(rank) || before.since(rank) != view.since(rank))
        begun_ = begun_ && mean_.repeats();
    }
  }

  void state(Archive& ar) override { ar(mean_, begun_, missed_, asked_of_, asking_); }

 private:
  bool takes_part() const { return !missed_ || mean_.of_senior(); }

  FinalMean& mean_;
  StateTransfer transfer_;
  bool begun_ = false, missed_ = false;
  std::optional<Rank> asked_of_;
  std::set<Rank> asking_;  // at the other workers
};

}  // namespace longhaul::sync::gossip
