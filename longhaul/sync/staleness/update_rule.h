#pragma once
// UpdateRule is a worker's own optimiser as a function from a gradient to the update that would be
// added to the parameters. Whoever applies the update later, elsewhere, needs no state of it.
//
//   sgd       u = -rate g
//   momentum  v <- momentum v + g;            u = -rate v
//   adagrad   G <- G + g^2;                   u = -rate g / (sqrt(G) + 1e-10)
//   rmsprop   G <- decay G + (1 - decay) g^2; u = -rate g / (sqrt(G) + 1e-8)
//   adam      m, v: means of g, g^2 with decays beta1, beta2; u = -rate m' / (sqrt(v') + 1e-8), m'
//             and v' divided by 1 - beta^t
// In double, each value rounded once.
//   Polyak, 1964; Duchi, Hazan and Singer, JMLR 2011; Tieleman and Hinton, lecture 6.5, 2012;
//   Kingma and Ba, ICLR 2015, algorithm 1.
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul::sync::staleness {

class UpdateRule {
  // Moves a mean of the state, rounded, and gives it.
  static double moved(float& mean, double decay, double share, double value) {
    mean = float(decay * double(mean) + share * value);
    return double(mean);
  }

 public:
  struct Config {
    std::string kind = "sgd";
    double momentum = 0.9;
    double decay = 0.9;
    double beta1 = 0.9, beta2 = 0.999;
  };
  explicit UpdateRule(Config config) : config_(std::move(config)) {}

  // u of this gradient; the state moves on.
  std::vector<float> update(std::span<const float> gradient, double rate) {
    std::vector<float> u(gradient.size());
    const auto each = [&](auto&& step) {
      for (std::size_t i = 0; i < u.size(); ++i) u[i] = float(-rate * step(i, double(gradient[i])));
    };
    const auto& c = config_;
    if (c.kind == "sgd") {
      each([](std::size_t, double g) { return g; });
    } else if (c.kind == "momentum") {
      first_.resize(u.size());
      each([&](std::size_t i, double g) { return moved(first_[i], c.momentum, 1, g); });
    } else if (c.kind == "adagrad") {
      second_.resize(u.size());
      each([&](std::size_t i, double g) {
        return g / (std::sqrt(moved(second_[i], 1, 1, g * g)) + 1e-10);
      });
    } else if (c.kind == "rmsprop") {
      second_.resize(u.size());
      each([&](std::size_t i, double g) {
        return g / (std::sqrt(moved(second_[i], c.decay, 1 - c.decay, g * g)) + 1e-8);
      });
    } else {
      first_.resize(u.size());
      second_.resize(u.size());
      left1_ *= c.beta1, left2_ *= c.beta2;
      each([&](std::size_t i, double g) {
        const double m = moved(first_[i], c.beta1, 1 - c.beta1, g) / (1 - left1_);
        const double v = moved(second_[i], c.beta2, 1 - c.beta2, g * g) / (1 - left2_);
        return m / (std::sqrt(v) + 1e-8);
      });
    }
    return u;
  }

  void state(Archive& ar) { ar(first_, second_, left1_, left2_); }

 private:
  Config config_;
  std::vector<float> first_, second_;  // v or m; G or v. Empty: not used, or no step yet
  double left1_ = 1, left2_ = 1;       // beta^t
};

}  // namespace longhaul::sync::staleness
