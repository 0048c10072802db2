#include "longhaul/transfer/dgt/share.h"

#include <algorithm>
#include <cmath>

namespace longhaul::transfer::dgt {

void ReliableShare::observe(double loss) {
  if (!config_.adaptive || !std::isfinite(loss)) return;
  smoothed_ = losses_ == 0 ? loss : smoothed_ + (loss - smoothed_) / config_.tau;
  if (++losses_ < config_.w_loss) return;
  if (losses_ == config_.w_loss) {
    first_ = smoothed_;
    return;
  }
  // A loss of 0 or less at first has no ratio that says anything.
  const double k = first_ > 0 ? config_.k0 * smoothed_ / first_ : config_.k0;
  if (std::isfinite(k)) k_ = std::clamp(k, config_.k_min, 1.0);
}

}  // namespace longhaul::transfer::dgt
