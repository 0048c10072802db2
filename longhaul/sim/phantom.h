#pragma once
// A learner with sizes and times but no numbers, for timing studies with thousands of nodes. Its
// layout has the model's size; its vectors are empty.
#include "longhaul/core/learner.h"

namespace longhaul::sim {

class PhantomLearner final : public Learner {
 public:
  // `batch` samples a step out of a shard of `shard_size`; both at least 1.
  PhantomLearner(std::shared_ptr<const Layout> layout, std::uint64_t batch,
                 std::uint64_t shard_size);

  std::shared_ptr<const Layout> layout() const override { return layout_; }
  std::span<float> params() override { return {}; }
  std::span<float> grads() override { return {}; }
  // Loss 0. Sufficient factors are none: their sizes follow from the layout and `samples`. An
  // Error for local solves.
  Result<StepResult> step(const Work&) override;
  void state(Archive& ar) override { ar(seen_); }

 private:
  std::shared_ptr<const Layout> layout_;
  std::uint64_t batch_;
  std::uint64_t shard_size_;
  std::uint64_t seen_ = 0;  // samples of the current epoch
};

}  // namespace longhaul::sim
