#pragma once
// adam: Adam on the mean update (Kingma and Ba, "Adam", ICLR 2015, algorithm 1; as a server
// optimiser: Reddi et al., "Adaptive federated optimization", ICLR 2021). Step t counts from 1.
//
//   m <- beta1 m + (1 - beta1) u      v <- beta2 v + (1 - beta2) u^2
//   u <- rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
#include <cmath>
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/core/transform.h"
#include "longhaul/outer/number.h"

namespace longhaul::outer {

struct AdamConfig {
  double rate = 0.01;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-3;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(rate, .doc = "largest usual step", .max = 1000, .positive = true);
    LONGHAUL_FIELD(beta1, .doc = "share of the mean that is kept", .min = 0, .max = 0.9999);
    LONGHAUL_FIELD(beta2, .doc = "share of the mean square that is kept", .min = 0,
                   .max = 0.999999);
    LONGHAUL_FIELD(epsilon, .doc = "updates much smaller than this are not scaled up", .min = 1e-12,
                   .max = 1000);
  }
};

class Adam final : public Transform {
 public:
  explicit Adam(const AdamConfig& config) : config_(config) {}
  // always of the same length
  void apply(std::span<float> update) override {
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

  void state(Archive& ar) override { ar(beta1_power_, beta2_power_, mean_, square_); }
  bool fits(std::size_t length) const override {
    return mean_.size() == square_.size() && (mean_.empty() || mean_.size() == length);
  }

 private:
  AdamConfig config_;
  double beta1_power_ = 1, beta2_power_ = 1;  // beta^t
  std::vector<float> mean_, square_;          // as long as the update; empty before the first
};

}  // namespace longhaul::outer
