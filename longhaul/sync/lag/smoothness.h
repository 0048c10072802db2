#pragma once
// The smoothness of one worker's loss, L_m: the largest eigenvalue of its Hessian at a point, by
// power iteration on differences of gradients (ours; the paper takes L_m as given). Of least
// squares it is the same everywhere; the Hessian of logistic regression is largest at 0, where
// models begin.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/rng.h"

namespace longhaul::sync::lag {

class Smoothness {
 public:
  bool is_known() const { return is_known_; }
  double value() const { return value_; }
  // The gradient at the point `at` that is looked at.
  void begin(std::span<const double> at, std::span<const double> gradient, Random random) {
    at_.assign(at.begin(), at.end());
    gradient_.assign(gradient.begin(), gradient.end());
    direction_.clear();
    for (std::size_t i = 0; i < at.size(); ++i) direction_.push_back(random.normal());
    normalise();
    if (direction_.empty()) is_known_ = true;  // a phantom
  }
  bool has_begun() const { return is_known_ || !direction_.empty(); }
  // Where the gradient is wanted next.
  std::vector<double> probe() const {
    std::vector<double> x = at_;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += kStep * direction_[i];
    return x;
  }
  void probed(std::span<const double> gradient) {
    for (std::size_t i = 0; i < direction_.size(); ++i)
      direction_[i] = (gradient[i] - gradient_[i]) / kStep;
    const double before = value_;
    value_ = normalise();
    ++probes_;
    is_known_ = std::abs(value_ - before) <= kAccuracy * value_ || probes_ >= kMostProbes;
  }
  void state(Archive& ar) { ar(is_known_, value_, probes_, at_, gradient_, direction_); }

 private:
  static constexpr double kStep = 1e-3, kAccuracy = 1e-9;
  static constexpr std::uint32_t kMostProbes = 500;

  double normalise() {  // returns the length
    double square = 0;
    for (const double v : direction_) square += v * v;
    const double length = std::sqrt(square);
    for (double& v : direction_) v = length > 0 ? v / length : 0;
    return length;
  }

  bool is_known_ = false;
  double value_ = 0;
  std::uint32_t probes_ = 0;
  std::vector<double> at_, gradient_, direction_;
};

}  // namespace longhaul::sync::lag
