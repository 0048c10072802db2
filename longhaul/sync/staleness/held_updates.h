#pragma once
// HeldUpdates keeps the updates that a worker may not apply yet. It applies those that are due in
// the order of (due, iteration, origin), whenever they arrived:
//   x <- x + sum w u'      in double, rounded once
// u' is u; with `compensation` lambda it is
//   u' = u - lambda / rate u^2 (x - x_t)      DC-ASGD's correction, where g = -u / rate
// x_t: this worker's own parameters when the update was computed. The sender's are not known
// (ours).
//   Zheng et al., "Asynchronous stochastic gradient descent with delay compensation", ICML 2017.
#include <algorithm>
#include <map>
#include <span>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/work.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync::staleness {

class HeldUpdates {
 public:
  struct Update {
    Round iteration = 0;  // iteration in which it was computed
    Rank origin = 0;
    Snapshot values;    // u; empty in a phantom job
    double weight = 1;  // w
    double rate = 0;    // rate of the update, for compensation
    void state(Archive& ar) {
      ar(iteration, origin, weight, rate);
      archive_snapshot(ar, values);
    }
  };
  struct Applied {
    std::uint64_t updates = 0;
    std::uint64_t delays = 0;  // iterations between computing and applying, summed
  };
  explicit HeldUpdates(double compensation) : compensation_(compensation) {}

  // Keeps x, the parameters in this iteration, to compensate the updates computed in it.
  void begin(Round iteration, std::span<const float> x) {
    if (compensation_ > 0) past_[iteration] = copied(x);
  }

  // `due` must be after the iteration of the update.
  void hold(Round due, Update update) {
    LH_CHECK(due > update.iteration && update.values);
    const Key key{due, update.iteration, update.origin};
    LH_CHECK(held_.emplace(key, std::move(update)).second);
  }

  // Applies all updates that are due by now.
  Applied apply(Round now, std::span<float> x) { return apply_up_to(now, now, x); }
  // Applies all updates at the end of a run, in iteration `now`.
  Applied flush(Round now, std::span<float> x) { return apply_up_to(~Round{0}, now, x); }

  std::size_t held() const { return held_.size(); }
  std::uint64_t applied() const { return applied_; }
  void state(Archive& ar) {
    std::map<Round, std::vector<float>> past;
    for (const auto& [iteration, x] : past_) past[iteration] = *x;
    ar(held_, past, applied_);
    if (!ar.loading()) return;
    past_.clear();
    for (auto& [iteration, x] : past) past_[iteration] = snapshot_of(std::move(x));
  }

 private:
  using Key = std::tuple<Round, Round, Rank>;  // due, iteration, origin
  Applied apply_up_to(Round due, Round now, std::span<float> x) {
    Applied applied;
    if (held_.empty() || std::get<0>(held_.begin()->first) > due) {
      forget_past(now);
      return applied;
    }
    std::vector<double> sum(x.begin(), x.end());
    while (!held_.empty() && std::get<0>(held_.begin()->first) <= due) {
      const Update& update = held_.begin()->second;
      LH_CHECK(now > update.iteration);
      add(update, sum);
      ++applied.updates;
      applied.delays += now - update.iteration;
      held_.erase(held_.begin());
    }
    std::ranges::transform(sum, x.begin(), [](double value) { return float(value); });
    applied_ += applied.updates;
    forget_past(now);
    return applied;
  }

  void add(const Update& update, std::span<double> sum) const {
    const std::vector<float>& u = *update.values;
    if (u.empty()) return;  // phantom job
    LH_CHECK(u.size() == sum.size());
    if (compensation_ == 0) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += update.weight * double(u[i]);
      return;
    }
    const std::vector<float>& x_t = *past_.at(update.iteration);
    const double strength = compensation_ / update.rate;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double v = double(u[i]);
      sum[i] += update.weight * (v - strength * v * v * (sum[i] - double(x_t[i])));
    }
  }

  // Forgets each x_t without held updates. Updates computed in `now` can still follow.
  void forget_past(Round now) {
    std::erase_if(past_, [&](const auto& one) {
      return one.first < now && std::ranges::none_of(held_, [&](const auto& held) {
               return std::get<1>(held.first) == one.first;
             });
    });
  }

  const double compensation_;
  std::map<Key, Update> held_;
  std::map<Round, Snapshot> past_;  // x_t of held updates, if they compensate
  std::uint64_t applied_ = 0;
};

}  // namespace longhaul::sync::staleness
