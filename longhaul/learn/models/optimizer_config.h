#pragma once
// The [optimizer] table and its learning-rate schedule. Without torch.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/settings.h"

namespace longhaul::learn {

struct OptimizerConfig {
  std::string kind = "sgd";
  double rate = 0.05;
  std::optional<double> weight_decay;  // absent: the kind's
  std::optional<double> momentum;      // absent: the kind's
  std::optional<bool> nesterov;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::string schedule = "constant";
  std::uint64_t steps = 1000;
  double factor = 0.1;
  double min_rate = 0;
  std::uint64_t warmup_steps = 0;
  std::optional<double> clip;
  double adamw_rate = 0.001;
  std::vector<std::string> by_adamw = {"embed", "position"};

  double inertia() const { return momentum.value_or(kind == "muon" ? 0.95 : 0.0); }
  bool looks_ahead() const { return nesterov.value_or(kind == "muon"); }
  double decay() const { return weight_decay.value_or(kind == "adamw" ? 0.01 : 0.0); }

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(kind, "the local optimiser",
                 .choices = {"sgd", "adagrad", "adam", "adamw", "muon"});
    LONGHAUL_KEY(rate, "learning rate", .max = 1e6, .positive = true);
    LONGHAUL_KEY(
        weight_decay,
        "sgd, adagrad, adam: L2 penalty, 0 if absent; decoupled: adamw, 0.01 if absent, muon, 0",
        .min = 0, .max = 1e6);
    LONGHAUL_KEY(momentum, "sgd, 0 if absent; muon, 0.95", .min = 0, .max = 1);
    LONGHAUL_KEY(nesterov, "Nesterov's momentum: sgd, false if absent; muon, true");
    LONGHAUL_KEY(beta1, "adam, adamw, muon: decay of the first moment", .min = 0, .max = 0.999999);
    LONGHAUL_KEY(beta2, "adam, adamw, muon: decay of the second moment", .min = 0,
                 .max = 0.999999999);
    LONGHAUL_KEY(epsilon, "adagrad, adam, adamw, muon: added to the root", .min = 0, .max = 1);
    LONGHAUL_KEY(schedule, "change of the rate over this node's own optimiser steps",
                 .choices = {"constant", "step", "cosine"});
    LONGHAUL_KEY(
        steps, "step: steps between two multiplications by factor; cosine: steps down to min_rate",
        .min = 1, .max = 1e12);
    LONGHAUL_KEY(factor, "step", .max = 1, .positive = true);
    LONGHAUL_KEY(min_rate, "cosine: the last rate", .min = 0, .max = 1e6);
    LONGHAUL_KEY(warmup_steps,
                 "first steps, over which the rate grows linearly; the schedule begins after them",
                 .max = 1e12);
    LONGHAUL_KEY(clip,
                 "a gradient whose norm, over all parameters, is larger is shortened to this norm; "
                 "absent: none is",
                 .max = 1e12, .positive = true);
    LONGHAUL_KEY(adamw_rate, "muon: the rate of parameters that are no matrix, updated by adamw",
                 .max = 1e6, .positive = true);
    LONGHAUL_KEY(by_adamw,
                 "muon: matrices whose names begin with one of these count as none: those next to "
                 "the input and the output");
  }
};

// Reads the table. Refuses keys that the kind or the schedule does not read, and nesterov without
// momentum.
Result<OptimizerConfig> read_optimizer(const Settings&);

// Returns the learning rate of optimiser step `step`, counted from 0.
double rate_at(const OptimizerConfig&, std::uint64_t step);

}  // namespace longhaul::learn
