#include "longhaul/learn/loss.h"

namespace longhaul::learn {

namespace {

at::Tensor binary_loss(const at::Tensor& logits, const at::Tensor& target,
                       const at::Tensor& class_weights) {
  const at::Tensor wanted = target.to(logits.dtype());
  if (!class_weights.defined()) return at::binary_cross_entropy_with_logits(logits, wanted);
  const at::Tensor weights = class_weights.index_select(0, target);
  return at::binary_cross_entropy_with_logits(logits, wanted, weights, {}, at::Reduction::Sum) /
         weights.sum();
}

}  // namespace

at::Tensor batch_loss(const Answer& answer, const at::Tensor& target, Task task,
                      const at::Tensor& class_weights) {
  if (answer.loss.defined()) return answer.loss;
  const at::Tensor& output = answer.output;
  if (task == Task::regression)
    return 0.5 * at::mean(at::sum(at::square(output - target.view_as(output)), {1}));
  if (task == Task::text) return at::cross_entropy_loss(output.flatten(0, 1), target.flatten());
  if (task == Task::multilabel) return at::binary_cross_entropy_with_logits(output, target);
  if (output.size(1) == 1) return binary_loss(output.squeeze(1), target, class_weights);
  if (!class_weights.defined()) return at::cross_entropy_loss(output, target);
  return at::cross_entropy_loss(output, target, class_weights);
}

std::uint64_t predictions(const at::Tensor& target, Task task) {
  const bool each = task == Task::text || task == Task::multilabel;
  return std::uint64_t(each ? target.numel() : target.size(0));
}

std::uint64_t batch_correct(const Answer& answer, const at::Tensor& target, Task task) {
  const at::Tensor& output = answer.output;
  if (task == Task::regression || !output.defined()) return 0;
  if (task == Task::multilabel)
    return std::uint64_t(at::sum(output.gt(0) == target.gt(0.5)).item<std::int64_t>());
  const at::Tensor guess = task == Task::text    ? at::argmax(output, 2)
                           : output.size(1) == 1 ? output.squeeze(1).gt(0).to(at::kLong)
                                                 : at::argmax(output, 1);
  return std::uint64_t(at::sum(guess == target).item<std::int64_t>());
}

}  // namespace longhaul::learn
