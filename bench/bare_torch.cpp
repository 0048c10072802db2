// A process that links libtorch and makes one tensor: what launch_time.py measures launch against.
#include <torch/torch.h>

#include <cstdio>

int main() { std::printf("%g\n", torch::ones({4, 4}).sum().item<double>()); }
