#pragma once
// Threshold says which updates are significant at a clock: those larger than T times the parameter.
//   Hsieh et al., "Gaia", NSDI 2017: T decreases as 1 / sqrt(t); the other schedules are those of
//   the released code (github.com/kevinhsieh/non_iid_dml).
#include <algorithm>
#include <cmath>
#include <functional>

#include "longhaul/base/archive.h"
#include "longhaul/sync/gaia/config.h"

namespace longhaul::sync::gaia {

class Threshold {
  static constexpr double kStep = 0.005, kAbove = 1.1, kBelow = 0.9;  // of the released code

 public:
  // The learning rate's share of its first value, at a clock from 1 on. Null: 1.
  using RateFactor = std::function<double(std::uint64_t clock)>;
  explicit Threshold(const Config& config, RateFactor factor = {})
      : config_(config), factor_(std::move(factor)), significance_(config.significance) {}

  // Does this clock send all that was not sent, significant or not?
  bool flushes(std::uint64_t clock) const {
    return config_.flush_every > 0 && clock % config_.flush_every == 0;
  }
  // T at a clock, from 1 on; asked once for each, in order. `sent_rate`: bytes per second that this
  // site has sent since the clock before; of `bandwidth` alone.
  double next(std::uint64_t clock, double sent_rate) {
    const Config& c = config_;
    if (flushes(clock)) return 0;
    const auto t = double(clock);
    if (c.threshold == "inv_sqrt") return significance_ / std::sqrt(t);
    if (c.threshold == "rate") return significance_ * (factor_ ? factor_(clock) : 1);
    if (c.threshold == "list")
      return c.list[std::min<std::uint64_t>((clock - 1) / c.list_every, c.list.size() - 1)];
    if (c.threshold == "ramp")
      return significance_ +
             (c.max_significance - significance_) * std::min(1.0, t / double(c.ramp_clocks));
    if (c.threshold == "bandwidth") {
      const double limit = c.limit_mbps * 125000;
      if (sent_rate > kAbove * limit) more_ += kStep;
      if (sent_rate < kBelow * limit) more_ -= kStep;
      more_ = std::clamp(more_, 0.0, std::max(0.0, c.max_significance - significance_));
      return significance_ + more_;
    }
    return significance_;
  }

  // T0 from here on.
  void set_significance(double significance) { significance_ = significance; }
  void state(Archive& ar) { ar(more_, significance_); }

 private:
  const Config config_;
  const RateFactor factor_;
  double significance_;
  double more_ = 0;  // bandwidth: what is added to T0
};

}  // namespace longhaul::sync::gaia
