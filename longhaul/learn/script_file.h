#pragma once
// Internal to learn/ (includes torch): reads TorchScript files.
#include <torch/csrc/jit/api/module.h>

#include <istream>
#include <string>

#include "longhaul/base/result.h"

namespace longhaul::learn {

// The module of a file, after check_operators() of script_operators.h on all its code. Loading runs
// code of the file (__setstate__), so it is compiled and checked before, too. `file`: its name in
// errors. Throws what torch throws.
Result<torch::jit::Module> read_script(std::istream&, const std::string& file, at::Device);

}  // namespace longhaul::learn
