#pragma once
// Internal to learn/ (includes torch): what is minimised and what is counted.
#include <ATen/ATen.h>

#include "longhaul/learn/answer.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

// The loss that a model answers, or else, as mean over the batch: Classes: cross entropy of the
// logits (batch x classes), or of a single logit (batch x 1, that of class 1). Numbers: half the
// squared error, summed over the targets. Labels: binary cross entropy of their logits, mean over
// samples and labels. Text: cross entropy of logits (batch x context x values of a byte or a
// token), mean over the bytes, in nats. `class_weights`, a float for each class, if defined: sum
// w_y loss / sum w_y, as torch's `weight`.
at::Tensor batch_loss(const Answer&, const at::Tensor& target, Task,
                      const at::Tensor& class_weights = {});
// What is predicted of a batch: its samples, bytes of text, or labels of its samples.
std::uint64_t predictions(const at::Tensor& target, Task);
// How many of them are given their class; 0 for numbers, and where the answer has no output.
std::uint64_t batch_correct(const Answer&, const at::Tensor& target, Task);

}  // namespace longhaul::learn
