#include "longhaul/outer/adam.h"

#include <cmath>

#include "longhaul/outer/number.h"

namespace longhaul::outer {

void Adam::apply(std::span<float> update) {
  if (mean_.empty()) {
    mean_.resize(update.size());
    square_.resize(update.size());
  }
  LH_CHECK(mean_.size() == update.size() && square_.size() == update.size());
  // Products, not pow(): the C library's last bit differs from machine to machine.
  beta1_power_ *= config_.beta1;
  beta2_power_ *= config_.beta2;
  const double mean_left = 1.0 - config_.beta1, square_left = 1.0 - config_.beta2;
  const double mean_scale = 1.0 / (1.0 - beta1_power_);
  const double square_scale = 1.0 / (1.0 - beta2_power_);
  for (std::size_t i = 0; i < update.size(); ++i) {
    const double u = update[i];
    const double mean = config_.beta1 * mean_[i] + mean_left * u;
    const double square = config_.beta2 * square_[i] + square_left * u * u;
    mean_[i] = to_float(mean);
    square_[i] = to_float(square);
    const double spread = std::sqrt(square * square_scale) + config_.epsilon;
    update[i] = to_float(config_.rate * (mean * mean_scale) / spread);
  }
}

}  // namespace longhaul::outer
