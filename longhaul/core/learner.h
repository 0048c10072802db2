#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/result.h"
#include "longhaul/core/layout.h"
#include "longhaul/core/work.h"

namespace longhaul {

// A Learner is what one node learns with: model, data shard and local optimiser behind two flat
// views. The libtorch one is in learn/, a quadratic for tests in core/testing/, a phantom (sizes
// and times, no numbers) in sim/.
//
// Threads: step() may run on another thread than the rest, but never two calls at once, and
// nobody else touches the learner meanwhile.
class Learner {
 public:
  // What a model has beside the values of the layout, which no step changes and no exchange
  // carries: a frozen tensor.
  struct FixedPart {
    std::string name;
    std::uint64_t digest = 0;  // of its values
  };

  virtual ~Learner() = default;
  virtual std::shared_ptr<const Layout> layout() const = 0;
  // layout()->size() elements in layout order, valid as long as the learner; a phantom's are empty.
  virtual std::span<float> params() = 0;
  virtual std::span<float> grads() = 0;
  // Blocks. Takes one step of the work. An Error (work this learner cannot do, a CUDA fault) ends
  // the run.
  virtual Result<StepResult> step(const Work&) = 0;
  // Parameters, optimiser, position in the data.
  virtual void state(Archive&) = 0;
  // Equal at all nodes, as the parameters are before the first step; hosts compare both. In the
  // model's order; at most kMostFixedParts.
  static constexpr std::size_t kMostFixedParts = 64;
  virtual std::vector<FixedPart> fixed_parts() const { return {}; }
};

// How well a model does on the test set; asked by hosts, off the clock.
struct Evaluation {
  double loss = 0;
  double accuracy = 0;  // regression: 0
  std::uint64_t samples = 0;

  void state(auto& archive) { archive(loss, accuracy, samples); }
};

}  // namespace longhaul
