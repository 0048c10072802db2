#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/result.h"
#include "longhaul/core/layout.h"
#include "longhaul/core/work.h"

namespace longhaul {

// A Learner holds the model, data shard and local optimiser of one node behind two flat views. The
// libtorch learner is in learn/, a quadratic for tests in core/testing/, a phantom (sizes and
// times, no numbers) in sim/.
//
// Threads: step() may run on another thread than the other calls. No two calls run at the same
// time, and nothing else uses the learner during a call.
class Learner {
 public:
  // A frozen tensor: not in the layout, not changed by steps, not exchanged.
  struct FixedPart {
    std::string name;
    std::uint64_t digest = 0;  // digest of its values
  };

  virtual ~Learner() = default;
  virtual std::shared_ptr<const Layout> layout() const = 0;
  // layout()->size() elements in layout order, valid as long as the learner; empty in a phantom.
  virtual std::span<float> params() = 0;
  virtual std::span<float> grads() = 0;
  // Takes one step of the work; blocks. An Error (work this learner cannot do, a CUDA fault) ends
  // the run.
  virtual Result<StepResult> step(const Work&) = 0;
  // Parameters, optimiser, position in the data.
  virtual void state(Archive&) = 0;
  // Returns the frozen tensors in the model's order; at most kMostFixedParts. Equal at all nodes,
  // like the parameters before the first step; hosts compare both.
  static constexpr std::size_t kMostFixedParts = 64;
  virtual std::vector<FixedPart> fixed_parts() const { return {}; }
};

// A model's score on test samples; without samples it has not been scored. Hosts request it outside
// the measured time.
struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy = {};  // absent: a score of the loss alone, as of regression
  std::uint64_t samples = 0;

  void state(auto& archive) { archive(loss, accuracy, samples); }
};

}  // namespace longhaul
