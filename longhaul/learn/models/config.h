#pragma once
#include <string>
#include <vector>

#include "longhaul/base/fields.h"

namespace longhaul::learn {

// The [model] table. The registry lists the keys of each kind.
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

  static void fields(auto& self, auto&& visit) {
    LONGHAUL_KEY(kind, "which model: see docs/models.md");
    LONGHAUL_KEY(hidden, "mlp, clicks: units of each hidden layer", .max = 65536);
    LONGHAUL_KEY(bias, "linear, logistic: with an intercept");
    LONGHAUL_KEY(start,
                 "mlp: initial parameters; torch: as torch.nn.Linear; he: weights N(0, 2 / inputs) "
                 "and biases 0 (He et al., 2015)",
                 .choices = {"torch", "he"});
    LONGHAUL_KEY(norm,
                 "resnet20, lenet: GroupNorm, or BatchNorm, behind each convolution; default: "
                 "group for resnet20, none for lenet",
                 .choices = {"default", "none", "group", "batch"});
    LONGHAUL_KEY(bn,
                 "norm = \"batch\": running statistics are in the mean like parameters, or local: "
                 "each worker keeps its own",
                 .choices = {"mean", "local"});
    LONGHAUL_KEY(path, "script: a TorchScript file", .local = true);
    LONGHAUL_KEY(output,
                 "script: the output in the answer of forward(): a key of a dict, or an index into "
                 "a tuple, from 0; default: the answer is one tensor",
                 .lenient = true);
    LONGHAUL_KEY(trial_s,
                 "script: most time for the trial of the file on one batch, in a process of its "
                 "own; a file that takes longer is refused",
                 .max = 1e6, .unit = "s", .positive = true, .local = true);
    LONGHAUL_KEY(trial_mb,
                 "script: most memory for that trial; 0: half of the machine's free memory",
                 .max = 1e9, .unit = "MB", .local = true);
    LONGHAUL_KEY(mbytes, "phantom: size of the parameters, 4 bytes each", .max = 1e6, .unit = "MB",
                 .positive = true);
    LONGHAUL_KEY(
        shapes,
        "phantom: the layers instead of mbytes, from input to output: \"4096x25088\" a fully "
        "connected one of outputs x inputs, \"9440000\" another of that many parameters");
    LONGHAUL_KEY(layers, "gpt: blocks of attention and a feed-forward layer", .min = 1,
                 .max = 1000);
    LONGHAUL_KEY(width, "gpt: numbers that stand for a byte or a token; a multiple of heads",
                 .min = 1, .max = 65536);
    LONGHAUL_KEY(heads, "gpt: of the attention", .min = 1, .max = 1000);
    LONGHAUL_KEY(context, "gpt: most bytes or tokens of an input; 0: those of a sample",
                 .max = 65536);
    LONGHAUL_KEY(factors,
                 "matrix_factorisation, clicks: numbers that stand for a user, an item or a value",
                 .min = 1, .max = 65536);
    LONGHAUL_KEY(device, "where the learner computes; auto: CUDA when there is one",
                 .choices = {"auto", "cpu", "cuda"}, .local = true);
  }
};

}  // namespace longhaul::learn
