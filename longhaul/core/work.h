#pragma once
// Requests to a learner, one step at a time, and its answers.
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "longhaul/base/bytes.h"
#include "longhaul/base/result.h"
#include "longhaul/core/item.h"

namespace longhaul {

using Snapshot = std::shared_ptr<const std::vector<float>>;  // a whole flat vector, or nullptr
inline Snapshot snapshot_of(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

// One mini-batch gradient, applied at once by the local optimiser.
struct LocalStep {
  // Number of following steps whose parameters the answer lists; 0: none.
  std::uint32_t ahead = 0;
};
// One mini-batch gradient, left in grads(); parameters stay.
struct Gradient {};
// Step of the local optimiser with the gradient in grads(). No batch, no time.
struct ApplyGradient {
  // Range of the layout's entries, from `first` to before `end`, with its own optimiser; 0 and 0:
  // all. A learner gets requests for all, or for the same parts in each step.
  std::uint32_t first = 0, end = 0;
  bool whole() const { return end == 0; }
};
// LocalStep on loss + mu/2 |x - anchor|^2 (FedProx).
struct ProximalStep {
  double mu = 0;
  Snapshot anchor;
};
// Gradient, plus the factors of these layers' gradients: u (batch x out) and v (batch x in), where
// u^T v is the gradient. The numbers are those of layout entries that are
// LayerRange::Linear::weight.
struct SufficientFactors {
  std::vector<std::uint32_t> layers;
};
// Forward pass of a Gradient in parts, from the input to the output. Each part reads only its own
// parameters; those of later parts may still change (Jayarajan et al., "Priority-based parameter
// propagation for distributed DNN training", MLSys 2019). BackwardPart follows the last part and
// returns loss and samples.
struct ForwardPart {
  // Range of the layout's entries, from `first` to before `end`. The first part begins with entry 0
  // and takes the batch, and the last one ends with the last parameter. Other parts begin with a
  // LayerRange::Linear::weight. A part with entry 0 restarts the pass.
  std::uint32_t first = 0, end = 0;
  double share = 1;  // share of a step's time, for hosts that model it
};
// A Gradient in parts, from the output to the input, so that finished parts can be sent while the
// rest is computed (wait-free backpropagation: Zhang et al., "Poseidon", ATC 2017, section 3). The
// first part takes the batch and does the forward pass, unless ForwardPart has. Each part leaves
// its gradient in grads() and returns the factors of its layers as in SufficientFactors. Parameters
// stay until the last part is done. The first part returns loss, samples and `exhausted`.
struct BackwardPart {
  // Range of the layout's entries, from `first` to before `end`. The first part ends with the last
  // parameter, the last part begins with entry 0, other parts with a LayerRange::Linear::weight.
  std::uint32_t first = 0, end = 0;
  bool begins = false;                // the first part
  std::vector<std::uint32_t> layers;  // layers of the part whose factors are returned
  double share = 1;                   // share of a step's time, for hosts that model it
};
// argmin over x of f(x) + <linear, x> + sum over (weight, anchor) of weight/2 |x - anchor|^2, in
// fp64, over the parameters. f is the loss over the whole shard: its mean, or the sum if `summed`.
struct LocalSolve {
  std::vector<double> linear;
  std::vector<std::pair<double, std::vector<double>>> anchors;
  double tolerance = 1e-10;
  bool summed = false;
};
// f and its gradient at `at`, in fp64, over the whole shard; f as above. Parameters stay.
struct FullGradient {
  std::vector<double> at;
  bool summed = false;
};
// LocalStep on a copy: times a step and leaves everything as it was.
struct ScratchStep {};
// Loss and accuracy of `model` on a batch of this node's own data.
struct Score {
  Snapshot model;
};
// Clears the local optimiser's state (momentum, moments). Its schedule continues. No batch, no
// time.
struct ResetOptimizer {};
// Vectors of the local optimiser (momentum; both moments of adam), concatenated, each with one
// value per parameter. They are first replaced by `set` unless that is empty, then returned. No
// batch, no time.
struct OptimizerState {
  std::vector<float> set = {};
  // Returns the complete optimiser state instead, with its counts of steps and of its schedule:
  // bytes for learners of the same job only, four per number (pack_bytes).
  bool whole = false;
};
// One of the two models of an index of growing data (focus/), on items. `cheap` returns a feature
// vector and a score per class for each item; `accurate` returns the class number of each item.
struct Infer {
  enum class Model : std::uint8_t { cheap, accurate };
  Model model = Model::cheap;
  std::vector<Item> items;
};

// Gradient at params() on the first `samples` of this node's own samples (all of them if there are
// fewer), left in grads(). Nothing else changes, and no batch is read. No time.
struct FixedGradient {
  std::uint32_t samples = 1000;
};

using Work = std::variant<LocalStep, Gradient, ApplyGradient, ProximalStep, SufficientFactors,
                          LocalSolve, ScratchStep, Score, ResetOptimizer, FullGradient, Infer,
                          FixedGradient, BackwardPart, OptimizerState, ForwardPart>;

// Returns a name for messages, such as "backward part".
std::string_view name_of(const Work&);
// Returns true for a step on a batch of the data that a strategy may use for the model.
bool trains(const Work&);

// Packs bytes into numbers for copying only: their length, then four bytes in each number.
std::vector<float> pack_bytes(std::span<const std::byte>);
// Unpacks such numbers; returns an Error if they hold no packed bytes.
Result<Buffer> unpack_bytes(std::span<const float>);

class Archive;
void archive_snapshot(Archive&, Snapshot&);
void archive_work(Archive&, Work&);

// The answer to one step of Work.
struct StepResult {
  // Mean over the batch, before the step. LocalSolve: f at the solution; FullGradient: f.
  double loss = 0;
  std::uint64_t samples = 0;          // in the batch
  std::uint64_t shard_size = 0;       // samples this node holds
  bool exhausted = false;             // an epoch of the shard ended with this step
  double accuracy = 0;                // Score only
  std::vector<float> factors = {};    // SufficientFactors: u, then v for each layer, row major
  std::vector<double> solution = {};  // LocalSolve; FullGradient: the gradient
  std::vector<float> outputs = {};    // Infer, OptimizerState
  // LocalStep with `ahead`, in a model that looks up rows of tables: parameters that the following
  // steps read, ascending and disjoint. Empty: every parameter.
  std::vector<Range> reads_next = {};
  Time elapsed{0};  // set by the host: virtual or real

  void state(auto& archive) {
    archive(loss, samples, shard_size, exhausted, accuracy, factors, solution, outputs, reads_next,
            elapsed);
  }
};

// Sum of all steps of one Turn::compute.
struct Computed {
  std::uint32_t steps = 0;
  double loss = 0;  // mean over the steps
  std::uint64_t samples = 0;
  std::uint64_t shard_size = 0;
  Time elapsed{0};

  void add(const StepResult& step) {
    loss += (step.loss - loss) / double(++steps);
    samples += step.samples;
    shard_size = step.shard_size;
    elapsed += step.elapsed;
  }
  // Adds later results.
  void add(const Computed& more) {
    if (more.steps == 0) return;
    steps += more.steps;
    loss += (more.loss - loss) * double(more.steps) / double(steps);
    samples += more.samples;
    shard_size = more.shard_size;
    elapsed += more.elapsed;
  }
  void state(auto& archive) { archive(steps, loss, samples, shard_size, elapsed); }
};

}  // namespace longhaul
