#include "longhaul/sim/phantom.h"

#include <algorithm>

namespace longhaul::sim {

PhantomLearner::PhantomLearner(std::shared_ptr<const Layout> layout, std::uint64_t batch,
                               std::uint64_t shard_size)
    : layout_(std::move(layout)), batch_(std::min(batch, shard_size)), shard_size_(shard_size) {
  LH_CHECK(batch_ >= 1);
}

Result<StepResult> PhantomLearner::step(const Work& work) {
  if (std::holds_alternative<Infer>(work))
    return invalid("a phantom learner has no numbers to solve for; give [model] a real kind");
  StepResult result{.shard_size = shard_size_};
  if (std::holds_alternative<LocalSolve>(work) || std::holds_alternative<FullGradient>(work)) {
    result.samples = shard_size_;
    return result;
  }
  if (std::holds_alternative<ApplyGradient>(work) || std::holds_alternative<ResetOptimizer>(work) ||
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

}  // namespace longhaul::sim
