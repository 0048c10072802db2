#pragma once
#include <string>
#include <vector>

#include "longhaul/base/fields.h"

namespace longhaul::learn {

// The [model] table. Which keys a kind reads stands in its line of the registry.
struct ModelConfig {
  std::string kind = "lenet";
  std::vector<double> hidden = {128};
  bool bias = true;
  std::string norm = "group";
  std::string path = "";
  double mbytes = 44.7;
  std::string device = "auto";

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .doc = "which model: see docs/models.md");
    LONGHAUL_FIELD(hidden, .doc = "mlp: units of each hidden layer", .max = 65536);
    LONGHAUL_FIELD(bias, .doc = "linear, logistic: with an intercept");
    LONGHAUL_FIELD(norm, .doc = "resnet20: GroupNorm, or BatchNorm with synchronised statistics",
                   .choices = {"group", "batch"});
    LONGHAUL_FIELD(path, .doc = "script: a TorchScript file", .local = true);
    LONGHAUL_FIELD(mbytes, .doc = "phantom: size of the parameters, 4 bytes each", .max = 1e6,
                   .unit = "MB", .positive = true);
    LONGHAUL_FIELD(device, .doc = "where the learner computes; auto: CUDA when there is one",
                   .choices = {"auto", "cpu", "cuda"}, .local = true);
  }
};

}  // namespace longhaul::learn
