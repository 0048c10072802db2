#pragma once
// EndsInMean is a strategy whose run ends with the mean of all models (final_return.h). `Phase` is
// an enum whose first value is that of a node that has not started, with averaging and ended.
#include "longhaul/core/strategy.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/gossip/final_return.h"
#include "longhaul/sync/relay.h"

namespace longhaul::sync::gossip {

template <class Phase>
class EndsInMean : public Strategy {
 protected:
  // With `returns` a derived class owns final_return_, behind its other children; without it a node
  // that has come back takes part in the mean as all do. `of_senior`: as FinalMean has it.
  explicit EndsInMean(std::unique_ptr<Overlay> overlay, bool returns = true, bool of_senior = false)
      : final_(std::move(overlay), of_senior), final_return_(final_), returns_(returns) {
    own(final_.overlay(), kOverlayChild);
  }
  // "dpsgd, round 3", in errors.
  virtual std::string place_in_run() const = 0;

  void fail(const Error& error, Turn& turn) {
    phase_ = Phase::ended;
    turn.fail({error.kind, who(place_in_run(), turn.place()) + error.what});
  }
  // All rounds are done. False: it has failed.
  bool begin_mean(Turn& turn) {
    phase_ = Phase::averaging;
    Turn below = within(final_.overlay(), turn);
    const Status begun = returns_ ? final_return_.begin(turn, below) : final_.begin(turn, below);
    if (!begun) fail(begun.error(), turn);
    return bool(begun);
  }
  // In every turn of Phase::averaging; `gives` as FinalReturn::take() has it. False: this node can
  // do no more now.
  bool end_with_mean(bool gives, Turn& turn) {
    const Result<bool> taken = returns_ ? final_return_.take(gives, within(final_return_, turn),
                                                             within(final_.overlay(), turn))
                                        : final_.take(turn, within(final_.overlay(), turn));
    if (!taken) fail(taken.error(), turn);
    if (!taken || !*taken) return false;
    phase_ = Phase::ended;
    turn.finish();
    return false;
  }

  Phase phase_{};
  FinalMean final_;
  FinalReturn final_return_;

 private:
  const bool returns_;
};

}  // namespace longhaul::sync::gossip
