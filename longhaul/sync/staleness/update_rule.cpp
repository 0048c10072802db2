#include "longhaul/sync/staleness/update_rule.h"

#include <cmath>

namespace longhaul::sync::staleness {
namespace {

// Moves a mean of the state, rounded, and gives it.
double moved(float& mean, double decay, double share, double value) {
  mean = float(decay * double(mean) + share * value);
  return double(mean);
}

}  // namespace

std::vector<float> UpdateRule::update(std::span<const float> gradient, double rate) {
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

}  // namespace longhaul::sync::staleness
