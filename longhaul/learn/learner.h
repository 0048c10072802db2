#pragma once
// The libtorch learner, without torch's headers. Models: models/registry.h; optimisers:
// optimizer_config.h; data: data/. To write another learner, implement core/learner.h.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "longhaul/core/learner.h"
#include "longhaul/learn/data/batches.h"
#include "longhaul/learn/data/dataset.h"
#include "longhaul/learn/models/optimizer_config.h"
#include "longhaul/learn/models/registry.h"

namespace longhaul::learn {

struct LearnerParts {
  ModelConfig model;
  OptimizerConfig optimizer;
  std::shared_ptr<const DataSet> data;
  std::vector<std::uint32_t> shard;  // samples of `data` at this node
  std::uint32_t batch = 32;
  std::uint64_t seed = 0;    // the job's: all nodes start with equal parameters
  std::uint32_t origin = 0;  // rank of the node; sets its order of samples
  bool joins = false;        // a last batch of one sample joins the one before; set by make_learner
  std::vector<double> class_weights = {};  // [data] class_weights: one per class, or none
  bool mirror = false;  // keep a host copy even on the CPU, to test the path of a GPU
};

// Makes the learner. Its behaviour for each kind of work (core/work.h):
//   LocalStep, Gradient, ApplyGradient, ProximalStep, ResetOptimizer, OptimizerState, ScratchStep
//     as defined there; muon has no OptimizerState. The loss of a ProximalStep is that of the
//     batch, without the penalty; with mu = 0 it is bit-identical to a LocalStep. grads() is valid
//     only after Gradient, FixedGradient and SufficientFactors, and only ApplyGradient reads it.
//     Running statistics change with every batch, also of a Gradient, but not of a ScratchStep or
//     Score. With [model] bn = "local" they are not in layout(): the learner keeps them
//     (core/kept_values.h).
//   SufficientFactors
//     `layers` are the layout's entries of linear layers' weights W. The gradient of each is u^T v,
//     which is in grads() as well. Not for script models.
//   ForwardPart, BackwardPart
//     registered models whose layers follow one another (mlp, logistic, linear, lenet) without
//     running statistics. No parameter is copied; grads() of a part is complete after the part.
//   ApplyGradient of a part
//     not with muon, whose matrices it could cut.
//   LocalSolve, FullGradient
//     linear and logistic only, over the whole shard: see solve.h.
//   FixedGradient
//     of the first samples of the shard, in shard order; running statistics do not change.
//   Score
//     a given model on 500 samples of the shard, the same each time, and at least 10 of each class
//     that it has. Running statistics are those of the scored model, or with bn = "local" the
//     learner's own. Without a model: the learner's own on the next batch, which stays the next
//     step's batch.
// step() returns an Error for work that the model cannot do, for torch's own errors, and if a CUDA
// device fails.
//
// Threads: any thread, one call at a time; the results are bit-identical on every thread.
// A script is tried on the first batch before the learner is made: a forward and a backward pass in
// training mode, two scores in evaluation mode.
// Errors of the factory name the key or file: model and data do not fit, no CUDA device, or an
// empty shard. A script also fails if it does not load, answers in the wrong shape, does not train,
// or scores the same samples in two ways.
Result<std::unique_ptr<Learner>> make_learner(LearnerParts);

// The properties of a model without its values. For a script its file is loaded.
struct ModelOutline {
  std::shared_ptr<const Layout> layout;  // layout of the whole model
  std::uint64_t code_digest = 0;         // digest of a script's code; 0 for other models
};
Result<ModelOutline> outline_of(const ModelConfig&, const DataShape&);

// Returns the initial model of a job as a whole, in layout order, with which every learner starts.
// For a script it is that of its file.
Result<std::vector<float>> initial_model(const ModelConfig&, const DataShape&, std::uint64_t seed);

}  // namespace longhaul::learn
