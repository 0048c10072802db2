#include "longhaul/sync/gaia/threshold.h"

#include <algorithm>
#include <cmath>

namespace longhaul::sync::gaia {
namespace {

constexpr double kStep = 0.005, kAbove = 1.1, kBelow = 0.9;  // of the released code

}  // namespace

double Threshold::next(std::uint64_t clock, double sent_rate) {
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

}  // namespace longhaul::sync::gaia
