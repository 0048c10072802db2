#pragma once
// Internal to learn/ (includes torch): what a model's forward() answers, taken apart.
#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <string>

#include "longhaul/base/result.h"

namespace longhaul::learn {

// Of one batch. At least one of the two is defined.
struct Answer {
  at::Tensor output;  // logits, or numbers to fit
  at::Tensor loss;    // one number: the model computes its loss itself
};

// `key` ([model] output) says which part of a dict, a tuple or a list is the output: a key, the
// name of a field, or a place from 0. With `own_loss` a part called "loss", else the first that is
// one number, is the loss, and the output may be left out. An Error reads "answers ...": it names
// the parts that there are and what to set.
Result<Answer> read_answer(const c10::IValue&, const std::string& key, bool own_loss);

}  // namespace longhaul::learn
