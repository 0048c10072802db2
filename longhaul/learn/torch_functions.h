#pragma once
// The functions of the libtorch learner that the rest of the program calls, as a table. The learner
// is a shared library, liblonghaul_torch.so. run/torch_library.h loads it when a run needs it:
// loading libtorch takes 0.7 s, and most commands compute nothing. Without torch's headers.
#include "longhaul/learn/inference.h"
#include "longhaul/learn/learner.h"
#include "longhaul/learn/model_file.h"
#include "longhaul/learn/scorer.h"
#include "longhaul/learn/threads.h"

namespace longhaul::learn {

struct TorchFunctions {
  decltype(&learn::make_learner) make_learner;
  decltype(&learn::outline_of) outline_of;
  decltype(&learn::make_scorer) make_scorer;
  decltype(&learn::model_file) model_file;
  decltype(&learn::load_model) load_model;
  decltype(&learn::outputs_of) outputs_of;
  decltype(&learn::make_inference) make_inference;
  decltype(&learn::use_one_thread_per_learner) use_one_thread_per_learner;
  decltype(&learn::prepare_compute_thread) prepare_compute_thread;
};

// The symbols that liblonghaul_torch.so exports: the version that it was built as, and its table.
// A table of another version must not be used: its types may differ.
inline constexpr char kTorchVersionSymbol[] = "longhaul_torch_version";      // const char*()
inline constexpr char kTorchFunctionsSymbol[] = "longhaul_torch_functions";  // TorchFunctions*()

}  // namespace longhaul::learn
