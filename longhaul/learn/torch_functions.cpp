#include "longhaul/learn/torch_functions.h"

extern "C" {

const char* longhaul_torch_version() { return LONGHAUL_VERSION; }

const longhaul::learn::TorchFunctions* longhaul_torch_functions() {
  namespace learn = longhaul::learn;
  static constexpr learn::TorchFunctions kFunctions{
      .make_learner = learn::make_learner,
      .outline_of = learn::outline_of,
      .make_scorer = learn::make_scorer,
      .model_file = learn::model_file,
      .load_model = learn::load_model,
      .outputs_of = learn::outputs_of,
      .make_inference = learn::make_inference,
      .use_one_thread_per_learner = learn::use_one_thread_per_learner,
      .prepare_compute_thread = learn::prepare_compute_thread};
  return &kFunctions;
}

}  // extern "C"
