#pragma once
// HeldUpdates keeps the updates that a worker has and may not apply yet, and applies those that are
// due, in the order of (due, iteration, origin), whenever they came:
//   x <- x + scale sum w u'      in double, rounded once
// u' is u; with `compensation` lambda it is
//   u' = u - lambda / rate u^2 (x - x_t)      DC-ASGD's correction, where g = -u / rate
// x_t: this worker's own parameters when the update was computed, in place of the sender's, which
// it does not have (ours).
//   Zheng et al., "Asynchronous stochastic gradient descent with delay compensation", ICML 2017.
#include <map>
#include <span>

#include "longhaul/core/work.h"

namespace longhaul::sync::staleness {

class HeldUpdates {
 public:
  struct Update {
    Round iteration = 0;  // it was computed in
    Rank origin = 0;
    Snapshot values;  // u; empty in a phantom job
    double weight = 1;
    double rate = 0;  // that it was made with; compensation needs it
    void state(Archive& ar);
  };
  struct Applied {
    std::uint64_t updates = 0;
    std::uint64_t delays = 0;  // iterations between computing and applying, summed
  };
  HeldUpdates(double scale, double compensation) : scale_(scale), compensation_(compensation) {}

  // x, the parameters in this iteration, is what updates computed in it are compensated from.
  void begin(Round iteration, std::span<const float> x);
  void hold(Round due, Update);  // due > iteration
  // All that are due by now.
  Applied apply(Round now, std::span<float> x) { return apply_up_to(now, now, x); }
  // All, at the end of a run: it is `now`.
  Applied flush(Round now, std::span<float> x) { return apply_up_to(~Round{0}, now, x); }

  std::size_t held() const { return held_.size(); }
  std::uint64_t applied() const { return applied_; }
  void state(Archive&);

 private:
  using Key = std::tuple<Round, Round, Rank>;  // due, iteration, origin
  Applied apply_up_to(Round due, Round now, std::span<float> x);
  void add(const Update&, std::span<double> sum) const;
  void forget_past(Round now);

  const double scale_, compensation_;
  std::map<Key, Update> held_;
  std::map<Round, Snapshot> past_;  // x_t of the iterations of held updates; if they compensate
  std::uint64_t applied_ = 0;
};

}  // namespace longhaul::sync::staleness
