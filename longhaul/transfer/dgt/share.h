#pragma once
// k, the share of the blocks that go reliably. It falls with the training loss:
//
//   Lbar <- Lbar + (L - Lbar) / tau              the first loss: Lbar = L
//   k = k0                                       up to the w_loss-th loss, whose Lbar is L1
//   k = clamp(k0 Lbar / L1, k_min, 1)            after it
//
// A loss that is not finite changes nothing. The public code of the paper does without smoothing.
#include <algorithm>
#include <cmath>

#include "longhaul/base/archive.h"
#include "longhaul/transfer/dgt/config.h"

namespace longhaul::transfer::dgt {

class ReliableShare {
 public:
  explicit ReliableShare(const Config& config) : config_(config), k_(config.k0) {}
  void observe(double loss) {
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

  double k() const { return k_; }
  void state(Archive& ar) { ar(losses_, smoothed_, first_, k_); }

 private:
  const Config config_;
  std::uint64_t losses_ = 0;
  double smoothed_ = 0, first_ = 0;  // Lbar, L1
  double k_;
};

}  // namespace longhaul::transfer::dgt
