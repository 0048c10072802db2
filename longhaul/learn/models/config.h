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
  std::string start = "torch";
  std::string norm = "default";
  std::string bn = "mean";
  std::string path = "";
  std::string output = "";
  double trial_s = 60, trial_mb = 0;
  double mbytes = 44.7;
  std::vector<std::string> shapes = {};
  std::uint32_t layers = 2, width = 64, heads = 2, context = 0;
  std::uint32_t factors = 16;
  std::string device = "auto";

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(kind, .doc = "which model: see docs/models.md");
    LONGHAUL_FIELD(hidden, .doc = "mlp, clicks: units of each hidden layer", .max = 65536);
    LONGHAUL_FIELD(bias, .doc = "linear, logistic: with an intercept");
    LONGHAUL_FIELD(start,
                   .doc =
                       "mlp: initial parameters; torch: as torch.nn.Linear; he: weights N(0, 2 / "
                       "inputs) and biases 0 (He et al., 2015)",
                   .choices = {"torch", "he"});
    LONGHAUL_FIELD(norm,
                   .doc =
                       "resnet20, lenet: GroupNorm, or BatchNorm, behind each convolution; "
                       "default: group for resnet20, none for lenet",
                   .choices = {"default", "none", "group", "batch"});
    LONGHAUL_FIELD(bn,
                   .doc =
                       "norm = \"batch\": running statistics are in the mean like parameters, or "
                       "local: each worker keeps its own",
                   .choices = {"mean", "local"});
    LONGHAUL_FIELD(path, .doc = "script: a TorchScript file", .local = true);
    LONGHAUL_FIELD(output,
                   .doc =
                       "script: which part of what forward() answers is the output: a key of a "
                       "dict, or a place in a tuple, from 0; default: it answers one tensor",
                   .lenient = true);
    LONGHAUL_FIELD(trial_s,
                   .doc =
                       "script: most time for the trial of the file on one batch, in a process of "
                       "its own; a file that takes longer is refused",
                   .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_FIELD(
        trial_mb,
        .doc = "script: most memory for that trial; 0: half of what is free on the machine",
        .max = 1e9, .unit = "MB", .local = true);
    LONGHAUL_FIELD(mbytes, .doc = "phantom: size of the parameters, 4 bytes each", .max = 1e6,
                   .unit = "MB", .positive = true);
    LONGHAUL_FIELD(shapes, .doc =
                               "phantom: the layers instead of mbytes, from input to output: "
                               "\"4096x25088\" a fully connected one of outputs x inputs, "
                               "\"9440000\" another of so many parameters");
    LONGHAUL_FIELD(layers, .doc = "gpt: blocks of attention and a feed-forward layer", .min = 1,
                   .max = 1000);
    LONGHAUL_FIELD(width,
                   .doc = "gpt: numbers that stand for a byte or a token; a multiple of heads",
                   .min = 1, .max = 65536);
    LONGHAUL_FIELD(heads, .doc = "gpt: of the attention", .min = 1, .max = 1000);
    LONGHAUL_FIELD(context, .doc = "gpt: most bytes or tokens of an input; 0: those of a sample",
                   .max = 65536);
    LONGHAUL_FIELD(
        factors,
        .doc = "matrix_factorisation, clicks: numbers that stand for a user, an item or a value",
        .min = 1, .max = 65536);
    LONGHAUL_FIELD(device, .doc = "where the learner computes; auto: CUDA when there is one",
                   .choices = {"auto", "cpu", "cuda"}, .local = true);
  }
};

}  // namespace longhaul::learn
