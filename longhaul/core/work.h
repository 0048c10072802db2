#pragma once
// What a learner can be asked to compute, one step at a time, and what it answers.
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
  // The answer says which parameters so many local steps after this one read; 0: it need not.
  std::uint32_t ahead = 0;
};
// One mini-batch gradient, left in grads(); parameters stay.
struct Gradient {};
// The local optimiser takes the vector that stands in grads() as the gradient. No batch, no time.
struct ApplyGradient {
  // Of the layout's entries those from `first` to before `end` alone, by an optimiser of their own;
  // 0 and 0: all. A learner is asked for all, or for the same parts in each step.
  std::uint32_t first = 0, end = 0;
  bool whole() const { return end == 0; }
};
// LocalStep on loss + mu/2 |x - anchor|^2 (FedProx).
struct ProximalStep {
  double mu = 0;
  Snapshot anchor;
};
// Gradient, and beside it the factors of these layers' gradients: u (batch x out) and v (batch x
// in), u^T v being the gradient. The numbers are those of the layout's entries that are
// LayerRange::Linear::weight.
struct SufficientFactors {
  std::vector<std::uint32_t> layers;
};
// The forward pass of a Gradient in parts, from the input to the output, each of which reads its
// own parameters alone: those of a later part may still change (Jayarajan et al., "Priority-based
// parameter propagation for distributed DNN training", MLSys 2019). BackwardPart follows the last
// one, and says loss and samples.
struct ForwardPart {
  // Of the layout's entries, those from `first` to before `end`. The first part begins with entry 0
  // and takes the batch, the last one ends with the last parameter, each other one begins with a
  // LayerRange::Linear::weight. A part of entry 0 begins anew.
  std::uint32_t first = 0, end = 0;
  double share = 1;  // of the time of a step, for hosts that model it
};
// A Gradient in parts, from the output to the input, so that what is done of it can be sent while
// the rest is computed (wait-free backpropagation: Zhang et al., "Poseidon", ATC 2017, section 3).
// The first part takes the batch and does the forward pass, unless ForwardPart has; each leaves its
// gradient in grads(), and answers the factors of its layers as SufficientFactors does. Parameters
// stay until the last part is done. Loss, samples and `exhausted` are answered with the first part.
struct BackwardPart {
  // Of the layout's entries, those from `first` to before `end`. The first part ends with the last
  // parameter, the last part begins with entry 0, each other one with a LayerRange::Linear::weight.
  std::uint32_t first = 0, end = 0;
  bool begins = false;                // the first part
  std::vector<std::uint32_t> layers;  // of them, whose factors are asked for
  double share = 1;                   // of the time of a step, for hosts that model it
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
// The local optimiser forgets its state: momentum, moments. Its schedule goes on. No batch, no
// time.
struct ResetOptimizer {};
// The vectors of the local optimiser (momentum; both moments of adam), one after the other, each of
// the parameters: first set to `set` unless that is empty, then answered. No batch, no time.
struct OptimizerState {
  std::vector<float> set = {};
  // Instead of the vectors all that the optimiser keeps, its count of steps and its schedule's too:
  // bytes that only a learner of the same job reads, four in each number (pack_bytes).
  bool whole = false;
};
// One of the two models of an index of growing data (focus/), on items. `cheap` answers a feature
// vector and a score for each class, item after item; `accurate` the number of a class for each.
struct Infer {
  enum class Model : std::uint8_t { cheap, accurate };
  Model model = Model::cheap;
  std::vector<Item> items;
};

// The gradient at params() on the first `samples` of this node's own samples (on all of them if
// there are fewer), left in grads(). Nothing else changes: it reads no batch. No time.
struct FixedGradient {
  std::uint32_t samples = 1000;
};

using Work = std::variant<LocalStep, Gradient, ApplyGradient, ProximalStep, SufficientFactors,
                          LocalSolve, ScratchStep, Score, ResetOptimizer, FullGradient, Infer,
                          FixedGradient, BackwardPart, OptimizerState, ForwardPart>;

// "backward part", for people.
std::string_view name_of(const Work&);
// Is it a step on a batch of the data that a strategy may use for the model?
bool trains(const Work&);

// Bytes as numbers to be copied, not to be counted with: their length, then four in each.
std::vector<float> pack_bytes(std::span<const std::byte>);
// The other way round; an Error if they hold no such bytes.
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
  std::vector<float> factors = {};    // SufficientFactors: of each layer u then v, row major
  std::vector<double> solution = {};  // LocalSolve; FullGradient: the gradient
  std::vector<float> outputs = {};    // Infer, OptimizerState
  // LocalStep with `ahead`, of a model that looks up rows of tables: what the steps after it read,
  // ascending and apart. Empty: every parameter.
  std::vector<Range> reads_next = {};
  Time elapsed{0};  // written by the host: virtual or real

  void state(auto& archive) {
    archive(loss, samples, shard_size, exhausted, accuracy, factors, solution, outputs, reads_next,
            elapsed);
  }
};

// All steps of one Turn::compute together.
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
  // The same of what was computed after it.
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
