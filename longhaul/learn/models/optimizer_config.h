#pragma once
// The [optimizer] table and its learning-rate schedule. Without torch.
#include <cmath>
#include <optional>
#include <string>

#include "longhaul/base/settings.h"

namespace longhaul::learn {

struct OptimizerConfig {
  std::string kind = "sgd";
  double rate = 0.05;
  std::optional<double> weight_decay;  // absent: that of the kind
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::string schedule = "constant";
  std::uint64_t steps = 1000;
  double factor = 0.1;
  double min_rate = 0;
  std::uint64_t warmup_steps = 0;

  double decay() const { return weight_decay.value_or(kind == "adamw" ? 0.01 : 0.0); }

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "kind", .doc = "the local optimiser", .choices = {"sgd", "adam", "adamw"}},
          self.kind);
    visit(Field{.name = "rate", .doc = "learning rate", .max = 1e6, .positive = true}, self.rate);
    visit(Field{.name = "weight_decay",
                .doc = "sgd, adam: L2 penalty, 0 if absent; adamw: decoupled, 0.01 if absent",
                .min = 0,
                .max = 1e6},
          self.weight_decay);
    visit(Field{.name = "momentum", .doc = "sgd", .min = 0, .max = 1}, self.momentum);
    visit(Field{.name = "nesterov", .doc = "sgd: Nesterov's momentum"}, self.nesterov);
    visit(Field{.name = "beta1",
                .doc = "adam, adamw: decay of the first moment",
                .min = 0,
                .max = 0.999999},
          self.beta1);
    visit(Field{.name = "beta2",
                .doc = "adam, adamw: decay of the second moment",
                .min = 0,
                .max = 0.999999999},
          self.beta2);
    visit(Field{.name = "epsilon", .doc = "adam, adamw: added to the root", .min = 0, .max = 1},
          self.epsilon);
    visit(Field{.name = "schedule",
                .doc = "of the rate, over this node's own optimiser steps",
                .choices = {"constant", "step", "cosine"}},
          self.schedule);
    visit(Field{.name = "steps",
                .doc = "step: times factor every so many steps; cosine: down to min_rate over so "
                       "many",
                .min = 1,
                .max = 1e12},
          self.steps);
    visit(Field{.name = "factor", .doc = "step", .max = 1, .positive = true}, self.factor);
    visit(Field{.name = "min_rate", .doc = "cosine: the last rate", .min = 0, .max = 1e6},
          self.min_rate);
    visit(Field{.name = "warmup_steps",
                .doc = "the rate grows linearly over the first so many steps; the schedule begins "
                       "behind them",
                .max = 1e12},
          self.warmup_steps);
  }
};

// The table; refuses keys that the kind or the schedule does not read, and nesterov without
// momentum.
Result<OptimizerConfig> read_optimizer(const Settings&);

// The learning rate of optimiser step `step`, counted from 0.
double rate_at(const OptimizerConfig&, std::uint64_t step);

}  // namespace longhaul::learn
