#pragma once
// Internal to learn/ (includes torch): reads TorchScript files, and what their code does.
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <istream>
#include <set>
#include <string>

#include "longhaul/base/result.h"

namespace longhaul::learn {

struct ScriptGraph {
  // Parameters and buffers that forward() reads, and that it may write to, by name
  // ("layers.0.weight"). A call that cannot be seen through makes all of them both.
  std::set<std::string> read, written;
  std::uint64_t digest = 0;  // of the code of forward() and the constants in it
};

// Throws what torch throws.
ScriptGraph read_graph(const torch::jit::Module&);

// The module of a file, which is a program: all of its code may use the operators of a table alone,
// those that compute on tensors. Loading runs code of the file (__setstate__), so it is compiled
// and checked before, too. `file`: its name in errors. Throws what torch throws.
Result<torch::jit::Module> read_script(std::istream&, const std::string& file, at::Device);

}  // namespace longhaul::learn
