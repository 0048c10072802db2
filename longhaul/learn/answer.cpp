#include "longhaul/learn/answer.h"

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
    auto loss = one_number(value.toTensor());
    if (!loss) return loss.error();
    return Answer{{}, *std::move(loss)};
  }
  const Parts parts = parts_of(value);
  if (parts.kind.empty())
    return invalid("answers a value of type " + value.type()->repr_str() +
                   ", expected a tensor, or a dict, tuple or list of tensors");
  if (own_loss) {
    auto loss = loss_among(parts);
    if (!loss) return loss.error();
    answer.loss = *std::move(loss);
  }
  if (own_loss && key.empty()) return answer;
  auto output = output_among(parts, key);
  if (!output) return output.error();
  answer.output = *std::move(output);
  return answer;
}

}  // namespace longhaul::learn
