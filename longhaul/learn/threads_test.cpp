#include "longhaul/learn/threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>

#include <thread>

namespace longhaul::learn {
namespace {

TEST(Threads, BlasAndTorchUseTheCallingThreadAlone) {
  use_one_thread_per_learner();
  use_one_thread_per_learner();
  EXPECT_EQ(at::get_num_threads(), 1);
  // Debian's libopenblas0-pthread, which scripts/setup installs.
  using GetThreads = int (*)();
  void* const symbol = dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
  ASSERT_TRUE(symbol) << "torch runs on another BLAS: apt-get install libopenblas0-pthread";
  EXPECT_EQ(reinterpret_cast<GetThreads>(symbol)(), 1);
}

TEST(Threads, EveryThreadIsPrepared) {
  use_one_thread_per_learner();
  std::thread([] {
    EXPECT_TRUE(torch::jit::getGraphExecutorOptimize());  // torch's default, per thread
    prepare_compute_thread();
    EXPECT_FALSE(torch::jit::getGraphExecutorOptimize());
    EXPECT_EQ(at::get_num_threads(), 1);
    // A product of two denormal-range numbers is not flushed to zero.
    volatile float tiny = 1e-30f;
    EXPECT_GT(tiny * 1e-10f, 0.f);
  }).join();
}

}  // namespace
}  // namespace longhaul::learn
