#pragma once
// The outer optimisers: none, momentum, nesterov, adam.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/core/transform.h"

namespace longhaul::outer {

// Outer optimisers calculate in double and round each stored number once. What is too large for a
// float becomes the largest there is: finite updates stay finite.
inline float to_float(double value) {
  return float(std::clamp(value, -double(FLT_MAX), double(FLT_MAX)));
}

// momentum: heavy-ball momentum on the mean update (Polyak 1964; on federated means: Hsu, Qi and
// Brown, "Measuring the effects of non-identical data distribution", 2019).
//
//   buf <- momentum buf + u      u <- rate buf
struct MomentumConfig {
  double rate = 1.0;
  double momentum = 0.9;

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(rate, "factor of the step", .max = 1000, .positive = true);
    LONGHAUL_KEY(momentum, "share of the buffer that is kept", .min = 0, .max = 0.9999);
  }
};

class Momentum : public Transform {
 public:
  explicit Momentum(const MomentumConfig& config) : Momentum(config, false) {}
  // always of the same length
  void apply(std::span<float> update) override {
    if (buffer_.empty()) buffer_.resize(update.size());
    LH_CHECK(buffer_.size() == update.size());
    const double rate = config_.rate, momentum = config_.momentum;
    for (std::size_t i = 0; i < update.size(); ++i) {
      const double buffer = momentum * buffer_[i] + update[i];
      const double step = ahead_ ? update[i] + momentum * buffer : buffer;
      buffer_[i] = to_float(buffer);
      update[i] = to_float(rate * step);
    }
  }

  void state(Archive& ar) override { ar(buffer_); }
  bool fits(std::size_t length) const override {
    return buffer_.empty() || buffer_.size() == length;
  }

 protected:
  // `ahead`: the step is taken with the buffer as it will be if u comes again.
  Momentum(const MomentumConfig& config, bool ahead) : config_(config), ahead_(ahead) {}

 private:
  const MomentumConfig config_;
  const bool ahead_;
  std::vector<float> buffer_;  // as long as the update; empty before the first
};

// nesterov: Nesterov momentum on the mean update, as DiLoCo's outer optimiser (Douillard et al.,
// 2023; code of OpenDiLoCo: torch.optim.SGD with nesterov).
//
//   buf <- momentum buf + u      u <- rate (u + momentum buf)
struct NesterovConfig : MomentumConfig {
  NesterovConfig() : MomentumConfig{.rate = 0.7, .momentum = 0.9} {}
};

class Nesterov final : public Momentum {
 public:
  explicit Nesterov(const MomentumConfig& config) : Momentum(config, true) {}
};

// adam: Adam on the mean update (Kingma and Ba, "Adam", ICLR 2015, algorithm 1; as a server
// optimiser: Reddi et al., "Adaptive federated optimization", ICLR 2021). Step t counts from 1.
//
//   m <- beta1 m + (1 - beta1) u      v <- beta2 v + (1 - beta2) u^2
//   u <- rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
struct AdamConfig {
  double rate = 0.01;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-3;

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(rate, "largest usual step", .max = 1000, .positive = true);
    LONGHAUL_KEY(beta1, "share of the mean that is kept", .min = 0, .max = 0.9999);
    LONGHAUL_KEY(beta2, "share of the mean square that is kept", .min = 0, .max = 0.999999);
    LONGHAUL_KEY(epsilon, "updates much smaller than this are not scaled up", .min = 1e-12,
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

// none: the mean update is applied as it is.
struct NoneConfig {
  static void fields(auto&, auto&&) {}
};

class None final : public Transform {
 public:
  explicit None(const NoneConfig&) {}
  void apply(std::span<float>) override {}
};

}  // namespace longhaul::outer
