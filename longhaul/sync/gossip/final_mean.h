#pragma once
// FinalMean is how a run without a common model ends: all live workers average the models that they
// end with, exactly and with equal weights, through the job's overlay, and hold the mean. It is the
// output of the published algorithms. Once in a run.
#include <memory>
#include <string>

#include "longhaul/core/overlay.h"

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
    if (!mean->counted.empty())
      std::copy(mean->values.begin(), mean->values.end(), turn.params().begin());
    return true;
  }
  std::string waiting_for() const { return overlay_->waiting_for(); }

 private:
  const std::unique_ptr<Overlay> overlay_;
};

}  // namespace longhaul::sync::gossip
