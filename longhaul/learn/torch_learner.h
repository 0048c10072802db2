#pragma once
// Internal to learn/ (includes torch): see learner.h for what it does.
#include <map>
#include <mutex>

#include "longhaul/core/kept_values.h"
#include "longhaul/learn/batch_loader.h"
#include "longhaul/learn/flat_vectors.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/optimizer.h"
#include "longhaul/learn/solve.h"

namespace longhaul::learn {

class TorchLearner final : public Learner, public KeepsValues {
 public:
  // Binds the net to flat vectors and gives these `initial` values.
  TorchLearner(LearnerParts, Net, at::Device, std::span<const float> initial);

  std::shared_ptr<const Layout> layout() const override { return layout_; }
  std::span<float> params() override { return flat_.host_params().first(layout_->size()); }
  std::span<float> grads() override { return flat_.host_grads().first(layout_->size()); }
  std::vector<float> kept_values() const override;
  Result<StepResult> step(const Work&) override;
  void state(Archive&) override;

  Net& net() { return net_; }
  const FlatVectors& flat() const { return flat_; }

 private:
  // One a kind of work; they may throw what torch throws.
  Result<StepResult> take(const LocalStep&);
  Result<StepResult> take(const Gradient&);
  Result<StepResult> take(const ApplyGradient&);
  Result<StepResult> take(const ProximalStep&);
  Result<StepResult> take(const SufficientFactors&);
  Result<StepResult> take(const LocalSolve&);
  Result<StepResult> take(const ScratchStep&);
  Result<StepResult> take(const Score&);
  Result<StepResult> take(const ResetOptimizer&);
  Result<StepResult> take(const FullGradient&);
  Result<StepResult> take(const Infer&);
  Result<StepResult> take(const FixedGradient&);
  Result<StepResult> take(const BackwardPart&);
  Result<StepResult> take(const OptimizerState&);
  Result<StepResult> take(const ForwardPart&);

  // Takes the parameters as they stand and leaves the gradient of the next batch in flat_.grads();
  // and in `activations`, if any, input and output of these linear layers, with the gradients of
  // the outputs.
  Result<StepResult> backward(std::span<const std::uint32_t> linears = {},
                              std::vector<LinearActivations>* activations = nullptr);
  // A pass in parts, between two of them.
  struct PartialPass {
    std::vector<std::uint32_t> entries;  // of the layout: the weight of each linear layer
    std::vector<LinearActivations> activations;
    Batch batch;
    // Forward: the output so far. Backward: how far it is, at first the loss, and the gradient
    // there.
    at::Tensor reached, gradient;
    StepResult result;
  };
  struct PartRange {
    std::uint32_t first = 0, end = 0;
    void state(Archive& ar) { ar(first, end); }
    friend auto operator<=>(const PartRange&, const PartRange&) = default;
  };
  // The one that is under way, or a new one as far as the forward parts that are done.
  Result<PartialPass*> partial_pass();
  std::uint32_t forward_end() const { return forward_done_.empty() ? 0 : forward_done_.back().end; }
  Status begin_backward();
  Result<FlatOptimizer*> optimizer_of(PartRange);
  void part_optimizers(Archive&);
  // Answers the factors of these layers.
  std::vector<float> backward_part(PartRange, const std::vector<std::uint32_t>& layers);
  StepResult about(const Batch&) const;
  StepResult about_shard() const;
  Result<ConvexShard*> convex();
  void apply();
  // What is kept is readable as it stands now.
  void publish();

  LearnerParts parts_;
  at::Device device_;
  Net net_;
  FlatVectors flat_;                      // of the net's layout
  std::shared_ptr<const Layout> layout_;  // the first part of it: what is exchanged
  mutable std::mutex kept_mutex_;
  std::vector<float> kept_;  // a copy of the rest
  FlatOptimizer optimizer_;
  at::Tensor class_weights_;  // undefined: all classes count alike
  BatchLoader batches_;
  std::optional<PartialPass> partial_;  // no state: follows from the batch and what is done of it
  std::vector<PartRange> forward_done_, parts_done_;  // of the batch that is under way
  std::map<PartRange, FlatOptimizer> part_optimizers_;
  std::unique_ptr<ConvexShard> convex_;  // of linear and logistic; no state: it follows from parts_
};

}  // namespace longhaul::learn
