#include "longhaul/learn/loss.h"

#include <ATen/core/Dict.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

namespace longhaul::learn {

namespace {

using Part = std::pair<std::string, c10::IValue>;

struct Parts {
  std::string kind;  // "dict"; empty: no such thing
  std::vector<Part> parts = {};
  bool named = false;
};

std::string text_of(const c10::IValue& key) {
  return key.isString() ? key.toStringRef() : key.isInt() ? std::to_string(key.toInt()) : "?";
}

Parts parts_of(const c10::IValue& value) {
  if (value.isGenericDict()) {
    Parts found{"dict", {}, true};
    for (const auto& entry : value.toGenericDict())
      found.parts.emplace_back(text_of(entry.key()), entry.value());
    return found;
  }
  if (!value.isTuple() && !value.isList()) return {};
  Parts found{value.isTuple() ? "tuple" : "list"};
  const auto add = [&](const auto& elements) {
    for (const c10::IValue& element : elements)
      found.parts.emplace_back(std::to_string(found.parts.size()), element);
  };
  if (value.isList()) {
    add(value.toListRef());
    return found;
  }
  add(value.toTupleRef().elements());
  const auto schema = value.type()->expect<c10::TupleType>()->schema();
  found.named = schema != nullptr;
  for (std::size_t i = 0; found.named && i < found.parts.size(); ++i)
    found.parts[i].first = schema->arguments().at(i).name();
  return found;
}

// "a dict of 'logits' and 'hidden'"; "a tuple of 2 parts".
std::string described(const Parts& answer) {
  std::string list;
  for (const auto& [name, part] : answer.parts)
    list += (list.empty() ? "'" : ", '") + name + "'" + (part.isTensor() ? "" : " (no tensor)");
  return "a " + answer.kind + (list.empty() ? " of nothing" : " of " + list);
}

std::string sizes_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

Result<at::Tensor> one_number(const at::Tensor& loss) {
  if (loss.numel() == 1) return loss.reshape({});
  return invalid("answers a loss of sizes " + sizes_of(loss) +
                 ", expected one number: its mean over the batch");
}

Result<at::Tensor> loss_among(const Parts& answer) {
  const auto found = std::ranges::find_if(answer.parts, [&](const Part& part) {
    if (!part.second.isTensor()) return false;
    return answer.named ? part.first == "loss" : part.second.toTensor().dim() == 0;
  });
  if (found != answer.parts.end()) return one_number(found->second.toTensor());
  return invalid("answers " + described(answer) +
                 "; a forward() that is given the targets answers its loss: one number" +
                 (answer.named ? ", called 'loss'" : ""));
}

Result<at::Tensor> output_among(const Parts& answer, const std::string& key) {
  const auto found = std::ranges::find(answer.parts, key, &Part::first);
  if (found != answer.parts.end() && found->second.isTensor()) return found->second.toTensor();
  return invalid("answers " + described(answer) +
                 (key.empty() ? "" : ", and [model] output = \"" + key + "\" is no tensor of it") +
                 ": set [model] output to the one that is " +
                 "batch x classes, or batch x targets");
}

}  // namespace

Result<Answer> read_answer(const c10::IValue& value, const std::string& key, bool own_loss) {
  Answer answer;
  if (value.isTensor()) {
    if (!key.empty())
      return invalid("answers one tensor, which has no part '" + key +
                     "': leave [model] output out");
    if (!own_loss) return Answer{value.toTensor(), {}};
    LH_LET(loss, one_number(value.toTensor()));
    return Answer{{}, std::move(loss)};
  }
  const Parts parts = parts_of(value);
  if (parts.kind.empty())
    return invalid("answers a value of type " + value.type()->repr_str() +
                   ", expected a tensor, or a dict, tuple or list of tensors");
  if (own_loss) {
    LH_LET(loss, loss_among(parts));
    answer.loss = std::move(loss);
  }
  if (own_loss && key.empty()) return answer;
  LH_LET(output, output_among(parts, key));
  answer.output = std::move(output);
  return answer;
}

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

std::optional<std::uint64_t> batch_correct(const Answer& answer, const at::Tensor& target,
                                           Task task) {
  const at::Tensor& output = answer.output;
  if (task == Task::regression || !output.defined()) return std::nullopt;
  if (task == Task::multilabel)
    return std::uint64_t(at::sum(output.gt(0) == target.gt(0.5)).item<std::int64_t>());
  const at::Tensor guess = task == Task::text    ? at::argmax(output, 2)
                           : output.size(1) == 1 ? output.squeeze(1).gt(0).to(at::kLong)
                                                 : at::argmax(output, 1);
  return std::uint64_t(at::sum(guess == target).item<std::int64_t>());
}

}  // namespace longhaul::learn
