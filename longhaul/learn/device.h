#pragma once
// Internal to learn/ (includes torch).
#include <ATen/ATen.h>

#include "longhaul/base/result.h"
#include "longhaul/learn/models/config.h"

namespace longhaul::learn {

// Where [model] device = "auto" | "cpu" | "cuda" puts the learner of `rank`; with several GPUs they
// go around. An Error if CUDA is asked for and there is none.
Result<at::Device> choose_device(const ModelConfig&, std::uint32_t rank);

}  // namespace longhaul::learn
