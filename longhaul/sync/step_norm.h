#pragma once
// How the updates of workers with unequal numbers of local steps become one mean.
//   FedNova: Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated
//   optimization", NeurIPS 2020, equations 6 to 8 and appendix on momentum:
//       x <- x + tau_eff sum p_i u_i / a_i,    tau_eff = sum p_i a_i
//   u_i = x_i - x is worker i's update, p_i its share, a_i the length of its path in steps: tau_i
//   of SGD; with momentum rho from a fresh start, the sum over its steps of what each moves in all.
// A plain mean favours the data of the workers with the most steps: its fixed point is that of a
// sum weighted by steps. The fixed point of the normalised mean is that of sum p_i F_i, at any
// speeds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/work.h"

namespace longhaul::sync {

// Returns a_i of `steps` steps with a momentum in [0, 1) from a fresh start, in steps without
// momentum. a_i = (tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho).
inline double way_in_steps(std::uint32_t steps, double momentum) {
  const double tau = steps;
  if (momentum == 0) return tau;
  const double rest = 1 - momentum;
  return (tau - momentum * (1 - std::pow(momentum, tau)) / rest) / rest;
}

// A worker's contribution to the mean, and its use of the mean. A value without state.
struct StepNorm {
  // "equal": p_i = 1/N; "samples": p_i = n_i / n; neither is normalised. "steps": normalised with
  // p_i = 1/N; "fednova": normalised with p_i = n_i / n.
  std::string_view weights = "equal";
  double momentum = 0;         // momentum of the local optimiser, if reset in every round; else 0
  double effective_steps = 0;  // maximum of tau_eff; 0: no bound

  bool normalises() const { return weights == "steps" || weights == "fednova"; }
  // Returns 1 if normalises(): a_i is sent with the update, in the round's exact scalars.
  std::size_t scalars() const { return normalises() ? 1 : 0; }
  // Returns p_i, not normalised to the sum 1. A learner with unknown samples counts as 1.
  double weight(const Computed& computed) const {
    const bool by_samples = weights == "samples" || weights == "fednova";
    return by_samples && computed.shard_size > 0 ? double(computed.shard_size) : 1;
  }

  // u_i <- u_i / a_i. Returns the scalars to send. Changes nothing unless normalises().
  std::vector<float> divide(std::span<float> update, const Computed& computed) const {
    if (!normalises()) return {};
    LH_CHECK(computed.steps > 0);
    const auto a = float(way_in_steps(computed.steps, momentum));
    for (float& u : update) u /= a;
    return {a};
  }

  // The mean of the u_i / a_i <- tau_eff times it. `scalars`: the mean of the results of divide().
  void multiply(std::span<float> mean, std::span<const float> scalars) const {
    if (!normalises() || mean.empty()) return;
    double tau_eff = scalars[0];
    if (effective_steps > 0) tau_eff = std::min(tau_eff, effective_steps);
    for (float& v : mean) v *= float(tau_eff);
  }
};

}  // namespace longhaul::sync
