#pragma once
// Internal to learn/ (includes torch): a TorchScript file is a program; this checks its operators.
#include <torch/csrc/jit/api/compilation_unit.h>

#include <string>

#include "longhaul/base/result.h"

namespace longhaul::learn {

// How the names of classes begin whose methods are C++: what they do cannot be read.
inline constexpr char kForeignClasses[] = "__torch__.torch.classes.";

// Looks at all functions of the unit: methods, hooks, properties and forked code are among them. An
// Error names the file, the function, and the operator that is not in the table of
// script_operators.cpp, or the class of C++.
Status check_operators(const torch::jit::CompilationUnit&, const std::string& file);

}  // namespace longhaul::learn
