#pragma once
// Internal to learn/ (includes torch): splits the result of a model's forward() into output and
// loss; computes the loss and the numbers of predictions.
#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <string>

#include "longhaul/base/result.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

// The answer to one batch. At least one of the two is defined.
struct Answer {
  at::Tensor output;  // logits, or numbers to fit
  at::Tensor loss;    // one number: the model computes its loss itself
};

// `key` ([model] output) says which part of a dict, a tuple or a list is the output: a key, the
// name of a field, or a place from 0. With `own_loss` a part called "loss", else the first that is
// one number, is the loss, and the output may be left out. An Error reads "answers ...": it names
// the parts that there are and what to set.
Result<Answer> read_answer(const c10::IValue&, const std::string& key, bool own_loss);

// The loss that a model answers, or else, as mean over the batch: Classes: cross entropy of the
// logits (batch x classes), or of a single logit (batch x 1, that of class 1). Numbers: half the
// squared error, summed over the targets. Labels: binary cross entropy of their logits, mean over
// samples and labels. Text: cross entropy of logits (batch x context x values of a byte or a
// token), mean over the bytes, in nats. `class_weights`, a float for each class, if defined: sum
// w_y loss / sum w_y, as torch's `weight`.
at::Tensor batch_loss(const Answer&, const at::Tensor& target, Task,
                      const at::Tensor& class_weights = {});
// Returns the number of predictions in a batch: samples, bytes of text, or labels of its samples.
std::uint64_t predictions(const at::Tensor& target, Task);
// Returns the number of correct predictions; nullopt for numbers, and if the answer has no output.
std::optional<std::uint64_t> batch_correct(const Answer&, const at::Tensor& target, Task);

}  // namespace longhaul::learn
