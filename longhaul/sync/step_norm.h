#pragma once
// How the updates of workers that take unequal numbers of local steps become one mean.
//   FedNova: Wang et al., "Tackling the objective inconsistency problem in heterogeneous federated
//   optimization", NeurIPS 2020, equations 6 to 8 and appendix on momentum:
//       x <- x + tau_eff sum p_i u_i / a_i,    tau_eff = sum p_i a_i
//   u_i = x_i - x is worker i's update, p_i its share, a_i the length of its way in steps: tau_i of
//   SGD; with momentum rho from a fresh start, the sum over its steps of what each moves in all.
// A plain mean favours the data of whoever takes most steps: its fixed point is that of a sum
// weighted by steps. This one's is that of sum p_i F_i, whatever the speeds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/work.h"

namespace longhaul::sync {

// a_i of `steps` steps with a momentum in [0, 1) that started from nothing, in steps without
// momentum: (tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho).
inline double way_in_steps(std::uint32_t steps, double momentum) {
  const double tau = steps;
  if (momentum == 0) return tau;
  const double rest = 1 - momentum;
  return (tau - momentum * (1 - std::pow(momentum, tau)) / rest) / rest;
}

// What a worker gives to the mean, and what it makes of it. A value without state.
struct StepNorm {
  // "equal": p_i = 1/N; "samples": p_i = n_i / n; neither is normalised. "steps": normalised with
  // p_i = 1/N; "fednova": normalised with p_i = n_i / n.
  std::string_view weights = "equal";
  double momentum = 0;         // of the local optimiser, if it starts fresh in every round; else 0
  double effective_steps = 0;  // tau_eff is at most that; 0: no bound

  bool normalises() const { return weights == "steps" || weights == "fednova"; }
  // 1 if normalises(): a_i travels with the update, in the round's exact scalars.
  std::size_t scalars() const { return normalises() ? 1 : 0; }
  // p_i, up to what makes the sum 1. A learner that does not tell its samples counts as 1.
  double weight(const Computed& computed) const {
    const bool by_samples = weights == "samples" || weights == "fednova";
    return by_samples && computed.shard_size > 0 ? double(computed.shard_size) : 1;
  }

  // u_i <- u_i / a_i; what the scalars are. Nothing is changed unless normalises().
  std::vector<float> divide(std::span<float> update, const Computed& computed) const {
    if (!normalises()) return {};
    LH_CHECK(computed.steps > 0);
    const auto a = float(way_in_steps(computed.steps, momentum));
    for (float& u : update) u /= a;
    return {a};
  }

  // The mean of the u_i / a_i <- tau_eff times it. `scalars`: the mean of what divide() returned.
  void multiply(std::span<float> mean, std::span<const float> scalars) const {
    if (!normalises() || mean.empty()) return;
    double tau_eff = scalars[0];
    if (effective_steps > 0) tau_eff = std::min(tau_eff, effective_steps);
    for (float& v : mean) v *= float(tau_eff);
  }
};

}  // namespace longhaul::sync
