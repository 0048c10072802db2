#pragma once
// How a trainer's parameters w take in a target that was measured from y, their snapshot some steps
// ago:
//   delta         w <- w + alpha (target - y)    steps since the snapshot stay whole
//   interpolate   w <- w + alpha (target - w)    of them a share alpha is lost
// Both add to w: steps meanwhile are never overwritten. In double, rounded once.
#include <span>

#include "longhaul/base/check.h"

namespace longhaul::sync::shadow {

enum class WriteBack { delta, interpolate };

// Where w is still y both rules are the same mean of w and target. Written as one, alpha = 1 gives
// the target bit for bit and alpha = 0 leaves w.
inline void write_back(std::span<float> w, std::span<const float> target, std::span<const float> y,
                       double alpha, WriteBack rule) {
  LH_CHECK(w.size() == target.size() && (rule == WriteBack::interpolate || w.size() == y.size()));
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double mine = double(w[i]), aim = double(target[i]);
    const bool is_mean = rule == WriteBack::interpolate || w[i] == y[i];
    w[i] = is_mean ? float((1 - alpha) * mine + alpha * aim)
                   : float(mine + alpha * (aim - double(y[i])));
  }
}

}  // namespace longhaul::sync::shadow
