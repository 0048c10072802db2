#pragma once
// A training loop as one writes it by hand: torch::nn modules, torch::optim over their parameters,
// zero_grad, backward, step. The learner's steps are compared with it bit for bit, and benchmarks
// measure against its speed, both on the device of [model] device. No torch in this header.
#include <memory>

#include "longhaul/learn/learner.h"

namespace longhaul::learn::testing {

class BareLoop {
 public:
  explicit BareLoop(const LearnerParts&);  // the same start, batches and settings
  ~BareLoop();

  double step();                      // the loss before it
  std::vector<float> params() const;  // in layout order

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace longhaul::learn::testing
