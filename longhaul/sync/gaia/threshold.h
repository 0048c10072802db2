#pragma once
// The significance filter: which accumulated updates are worth sending.
//   Hsieh et al., "Gaia", NSDI 2017; where a parameter is 0, every update of it is significant, as
//   in the released code.
#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/sync/gaia/config.h"

namespace longhaul::sync::gaia {

struct Significance {
  double threshold = 0;  // T
  double absolute = 0;   // > 0: compared with the update itself, instead of T
  bool everything = false;

  bool holds(float update, float parameter) const {
    if (update == 0) return false;
    if (everything) return true;
    const double size = std::abs(double(update));
    if (absolute > 0) return size > absolute;
    return parameter == 0 || size > threshold * std::abs(double(parameter));
  }
};

// The indexes, ascending, of the updates that are significant. `updates` and `parameters`, the
// values after the local steps, are equally long and finite. Comparisons in double.
inline std::vector<std::uint32_t> significant(std::span<const float> updates,
                                              std::span<const float> parameters,
                                              const Significance& significance) {
  LH_CHECK(updates.size() == parameters.size());
  std::vector<std::uint32_t> indexes;
  for (std::size_t i = 0; i < updates.size(); ++i)
    if (significance.holds(updates[i], parameters[i])) indexes.push_back(std::uint32_t(i));
  return indexes;
}

// Threshold says which updates are significant at a clock: those larger than T times the parameter.
//   Hsieh et al., "Gaia", NSDI 2017: T decreases as 1 / sqrt(t); the other schedules are those of
//   the released code (github.com/kevinhsieh/non_iid_dml).
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
