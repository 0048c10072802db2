#pragma once
// Internal to learn/ (includes torch): what the code of a TorchScript module does, without running
// it.
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace longhaul::learn {

struct ScriptGraph {
  // Parameters and buffers that forward() reads, and that it may write to, by name
  // ("layers.0.weight"). A call that cannot be seen through makes all of them both.
  std::set<std::string> read, written;
  std::uint64_t digest = 0;  // of the code of forward() and the constants in it
};

// Every node of the block and of the blocks in it, in their order.
void for_each_node(torch::jit::Block&, const std::function<void(torch::jit::Node*)>&);

// Throws what torch throws.
ScriptGraph read_graph(const torch::jit::Module&);

}  // namespace longhaul::learn
