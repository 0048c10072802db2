#pragma once
// The common part of local SGD, FedAvg and DiLoCo: an anchor X, equal on all nodes. Each node
// trains away from X by itself; the mean of their updates is added to X.
#include "longhaul/core/transform.h"
#include "longhaul/core/turn.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {

class LocalUpdate {
 public:
  // X <- x
  void anchor(Turn& turn) { assign(anchor_, parameters(turn)); }

  // Returns u_k = x_k - X of the parameters; empty for phantoms.
  std::vector<float> update(Turn& turn) const { return difference_of(parameters(turn), anchor_); }

  // X <- X + outer(ubar); x_k <- X. Overwrites `ubar`.
  void apply(std::span<float> ubar, Transform& outer, Turn& turn) {
    apply(ubar, outer, parameters(turn));
  }

  // The same with other parameters in place of x_k.
  void apply(std::span<float> ubar, Transform& outer, std::span<float> x) {
    outer.apply(ubar);
    LH_CHECK(ubar.size() == x.size() && x.size() == anchor_.size());
    for (std::size_t i = 0; i < ubar.size(); ++i) x[i] = anchor_[i] = anchor_[i] + ubar[i];
  }

  std::span<const float> anchor() const { return anchor_; }
  void state(Archive& ar) { ar(anchor_); }
  bool fits(std::size_t parameters) const { return anchor_.size() == parameters; }

 private:
  std::vector<float> anchor_;  // X
};

}  // namespace longhaul::sync
