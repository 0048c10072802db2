#pragma once
// What local SGD, FedAvg and DiLoCo share: an anchor X, equal on all nodes, from which each walks
// away by itself, and to which the mean of their ways is added.
#include "longhaul/core/transform.h"
#include "longhaul/core/turn.h"

namespace longhaul::sync {

class LocalUpdate {
 public:
  // X <- x
  void anchor(Turn&);
  // u_k = x_k - X, of the parameters; empty for phantoms.
  std::vector<float> update(Turn&) const;
  // X <- X + outer(ubar); x_k <- X. `ubar` is used up.
  void apply(std::span<float> ubar, Transform& outer, Turn&);
  // The same with other parameters in place of x_k.
  void apply(std::span<float> ubar, Transform& outer, std::span<float> parameters);
  std::span<const float> anchor() const { return anchor_; }
  void state(Archive& ar) { ar(anchor_); }
  bool fits(std::size_t parameters) const { return anchor_.size() == parameters; }

 private:
  std::vector<float> anchor_;  // X
};

}  // namespace longhaul::sync
