#include "longhaul/learn/script_graph.h"

#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <xxhash.h>

#include <map>
#include <string_view>

namespace longhaul::learn {

namespace jit = torch::jit;

void for_each_node(jit::Block& block, const std::function<void(jit::Node*)>& visit) {
  for (jit::Node* node : block.nodes()) {
    visit(node);
    for (jit::Block* inner : node->blocks()) for_each_node(*inner, visit);
  }
}

namespace {

// Norms move the running statistics that they are given, and their schemas do not say so.
bool moves_statistics(const jit::Node& node) {
  const std::string_view name = node.kind().toUnqualString();
  for (const std::string_view part : {"batch_norm", "instance_norm", "moving_avg"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

// A part of a module, which has tensors of its own; not a flag or a number.
bool holds_tensors(const c10::Type& type) {
  return type.kind() == c10::TypeKind::ClassType || type.kind() == c10::TypeKind::InterfaceType;
}

// Are there calls? Reads the code of what is called, which a pass that inlines does not.
bool calls(jit::Block& block) {
  bool any = false;
  for_each_node(block, [&](jit::Node* node) {
    any |= node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
    if (node->kind() != c10::prim::CallFunction) return;
    if (const auto type = node->input(0)->type()->cast<c10::FunctionType>())
      type->function()->ensure_defined();
  });
  return any;
}

std::uint64_t digest_of(jit::Graph& graph) {
  const std::string text = graph.toString(/*print_source_locations=*/false);
  std::uint64_t digest = XXH3_64bits(text.data(), text.size());
  for_each_node(*graph.block(), [&](jit::Node* node) {
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value) ||
        node->kindOf(c10::attr::value) != jit::AttributeKind::t)
      return;
    const at::Tensor values = node->t(c10::attr::value).cpu().contiguous();
    digest = XXH3_64bits_withSeed(values.data_ptr(), values.nbytes(), digest);
  });
  return digest;
}

}  // namespace

ScriptGraph read_graph(const jit::Module& module) {
  const std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph()->copy();
  constexpr int kDeepest = 64;
  for (int level = 0; level < kDeepest && calls(*graph->block()); ++level) jit::Inline(*graph);
  ScriptGraph found;
  found.digest = digest_of(*graph);
  // Each value that is the module, or something in it, and its name with a dot behind it.
  std::map<const jit::Value*, std::string> names{{graph->inputs().at(0), ""}};
  std::map<std::string, std::vector<jit::Value*>> tensors;
  bool opaque = calls(*graph->block());
  for_each_node(*graph->block(), [&](jit::Node* node) {
    const bool gets = node->kind() == c10::prim::GetAttr;
    for (const jit::Value* input : node->inputs()) {
      const auto at = names.find(input);
      if (at == names.end()) continue;
      const bool sets = node->kind() == c10::prim::SetAttr;
      if (sets) found.written.insert(at->second + node->s(c10::attr::name));
      if (!gets) {
        opaque |= !sets;  // the module itself goes somewhere
        continue;
      }
      const std::string name = at->second + node->s(c10::attr::name);
      if (node->output()->type()->isSubtypeOf(*c10::TensorType::get()))
        tensors[name].push_back(node->output());
      else if (holds_tensors(*node->output()->type()))
        names.emplace(node->output(), name + ".");
    }
  });
  // Else every tensor of a module might be every other. Tied ones are told apart by their memory.
  jit::AliasDb aliases(graph, /*isFrozen=*/true);
  for (const auto& [name, values] : tensors) {
    found.read.insert(name);
    for (jit::Value* value : values)
      if (aliases.hasWriters(value)) found.written.insert(name);
  }
  for_each_node(*graph->block(), [&](jit::Node* node) {
    if (!moves_statistics(*node)) return;
    for (jit::Value* input : node->inputs())
      for (const auto& [name, values] : tensors)
        for (jit::Value* value : values)
          if (aliases.mayAlias(input, value)) found.written.insert(name);
  });
  if (!opaque) return found;
  for (const auto& one : module.named_parameters()) found.read.insert(one.name);
  for (const auto& one : module.named_buffers()) found.read.insert(one.name);
  found.written = found.read;
  return found;
}

}  // namespace longhaul::learn
