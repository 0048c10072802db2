#pragma once
// How a trainer's parameters w take in a target that was measured from y, their snapshot some steps
// ago:
//   delta         w <- w + alpha (target - y)    steps since the snapshot stay whole
//   interpolate   w <- w + alpha (target - w)    of them a share alpha is lost
// Both add to w: steps meanwhile are never overwritten. In double, rounded once.
#include <span>

namespace longhaul::sync::shadow {

enum class WriteBack { delta, interpolate };

void write_back(std::span<float> w, std::span<const float> target, std::span<const float> y,
                double alpha, WriteBack);

}  // namespace longhaul::sync::shadow
