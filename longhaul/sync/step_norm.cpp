#include "longhaul/sync/step_norm.h"

#include <algorithm>
#include <cmath>

#include "longhaul/base/check.h"

namespace longhaul::sync {

double way_in_steps(std::uint32_t steps, double momentum) {
  const double tau = steps;
  if (momentum == 0) return tau;
  const double rest = 1 - momentum;
  return (tau - momentum * (1 - std::pow(momentum, tau)) / rest) / rest;
}

double StepNorm::weight(const Computed& computed) const {
  const bool by_samples = weights == "samples" || weights == "fednova";
  return by_samples && computed.shard_size > 0 ? double(computed.shard_size) : 1;
}

std::vector<float> StepNorm::divide(std::span<float> update, const Computed& computed) const {
  if (!normalises()) return {};
  LH_CHECK(computed.steps > 0);
  const auto a = float(way_in_steps(computed.steps, momentum));
  for (float& u : update) u /= a;
  return {a};
}

void StepNorm::multiply(std::span<float> mean, std::span<const float> scalars) const {
  if (!normalises() || mean.empty()) return;
  double tau_eff = scalars[0];
  if (effective_steps > 0) tau_eff = std::min(tau_eff, effective_steps);
  for (float& v : mean) v *= float(tau_eff);
}

}  // namespace longhaul::sync
