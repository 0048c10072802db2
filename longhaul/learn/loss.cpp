#include "longhaul/learn/loss.h"

namespace longhaul::learn {

at::Tensor batch_loss(const at::Tensor& output, const at::Tensor& target, Task task) {
  if (task == Task::regression)
    return 0.5 * at::mean(at::sum(at::square(output - target.view_as(output)), {1}));
  if (task == Task::text) return at::cross_entropy_loss(output.flatten(0, 1), target.flatten());
  if (output.size(1) == 1)
    return at::binary_cross_entropy_with_logits(output.squeeze(1), target.to(output.dtype()));
  return at::cross_entropy_loss(output, target);
}

std::uint64_t batch_correct(const at::Tensor& output, const at::Tensor& target, Task task) {
  if (task == Task::regression) return 0;
  const at::Tensor guess = task == Task::text    ? at::argmax(output, 2)
                           : output.size(1) == 1 ? output.squeeze(1).gt(0).to(at::kLong)
                                                 : at::argmax(output, 1);
  return std::uint64_t(at::sum(guess == target).item<std::int64_t>());
}

}  // namespace longhaul::learn
