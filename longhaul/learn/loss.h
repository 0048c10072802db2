#pragma once
// Internal to learn/ (includes torch): what is minimised and what is counted.
#include <ATen/ATen.h>

#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

// Mean over the batch. Classes: cross entropy of the logits (batch x classes), or of a single logit
// (batch x 1, that of class 1). Numbers: half the squared error, summed over the targets. Text:
// cross entropy of logits (batch x context x 256), mean over the bytes, in nats.
at::Tensor batch_loss(const at::Tensor& output, const at::Tensor& target, Task);
// How many of the batch (text: of its bytes) are given their class; 0 for numbers.
std::uint64_t batch_correct(const at::Tensor& output, const at::Tensor& target, Task);

}  // namespace longhaul::learn
