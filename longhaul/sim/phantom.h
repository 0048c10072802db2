#pragma once
// A learner with sizes and times but no numbers, for timing studies with thousands of nodes. Its
// layout has the model's size; its vectors are empty.
#include <algorithm>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include "longhaul/core/learner.h"

namespace longhaul::sim {

class PhantomLearner final : public Learner {
 public:
  // `batch` samples a step out of a shard of `shard_size`; both at least 1. `can`: returns false
  // for work, by name_of(), that this learner refuses; empty: none.
  PhantomLearner(std::shared_ptr<const Layout> layout, std::uint64_t batch,
                 std::uint64_t shard_size, std::function<bool(std::string_view)> can = {})
      : layout_(std::move(layout)),
        batch_(std::min(batch, shard_size)),
        shard_size_(shard_size),
        can_(std::move(can)) {
    LH_CHECK(batch_ >= 1);
  }

  std::shared_ptr<const Layout> layout() const override { return layout_; }
  std::span<float> params() override { return {}; }
  std::span<float> grads() override { return {}; }
  // Loss 0. Sufficient factors are none: their sizes follow from the layout and `samples`. An
  // Error for local solves.
  Result<StepResult> step(const Work& work) override {
    if (can_ && !can_(name_of(work)))
      return invalid(
          fmt::format("the strategy asks the learners for what they cannot do: {}", name_of(work)));
    if (std::holds_alternative<Infer>(work))
      return invalid("a phantom learner has no numbers to solve for; give [model] a real kind");
    StepResult result{.shard_size = shard_size_};
    if (std::holds_alternative<LocalSolve>(work) || std::holds_alternative<FullGradient>(work)) {
      result.samples = shard_size_;
      return result;
    }
    if (std::holds_alternative<ApplyGradient>(work) ||
        std::holds_alternative<ResetOptimizer>(work) ||
        std::holds_alternative<OptimizerState>(work) || std::holds_alternative<ForwardPart>(work))
      return result;
    const auto* part = std::get_if<BackwardPart>(&work);
    if (part && !part->begins) return result;
    result.samples = batch_;
    const bool reads_on = std::holds_alternative<LocalStep>(work) ||
                          std::holds_alternative<Gradient>(work) ||
                          std::holds_alternative<SufficientFactors>(work) ||
                          std::holds_alternative<ProximalStep>(work) || part;
    if (!reads_on) return result;
    result.samples = std::min(batch_, shard_size_ - seen_);
    seen_ += result.samples;
    result.exhausted = seen_ == shard_size_;
    if (result.exhausted) seen_ = 0;
    return result;
  }

  void state(Archive& ar) override { ar(seen_); }

 private:
  std::shared_ptr<const Layout> layout_;
  std::uint64_t batch_;
  std::uint64_t shard_size_;
  const std::function<bool(std::string_view)> can_;
  std::uint64_t seen_ = 0;  // samples of the current epoch
};

}  // namespace longhaul::sim
