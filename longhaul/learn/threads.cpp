#include "longhaul/learn/threads.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>

#include <mutex>

namespace longhaul::learn {
namespace {

// Limits BLAS to one thread. The system's alternatives choose the BLAS, not the linker line, so its
// function is looked up at run time. A BLAS without threads has no such function.
void limit_blas() {
  using SetThreads = void (*)(int);
  if (void* symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))
    reinterpret_cast<SetThreads>(symbol)(1);
}

}  // namespace

void use_one_thread_per_learner() {
  static std::once_flag once;
  std::call_once(once, [] {
    limit_blas();
    at::set_num_threads(1);
    try {
      at::set_num_interop_threads(1);
    } catch (const std::exception&) {
      // The program that embeds us has started torch's inter-op pool: no step of ours uses it.
    }
  });
  prepare_compute_thread();
}

void prepare_compute_thread() {
  thread_local bool ready = false;
  if (ready) return;
  at::init_num_threads();  // OpenMP keeps its number of threads per thread
  at::globalContext().setFlushDenormal(false);
  // The profiling executor rewrites a graph after its first runs, which may change the last bits. A
  // step would then differ between a new process and one that has run for a while.
  torch::jit::setGraphExecutorOptimize(false);
  ready = true;
}

}  // namespace longhaul::learn
