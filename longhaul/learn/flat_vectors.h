#pragma once
// Internal to learn/ (includes torch): the two flat vectors that a model's tensors are views into.
#include <span>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace longhaul::learn {

inline void append_values(std::vector<float>& to, const at::Tensor& floats) {
  const at::Tensor host = floats.to(at::kCPU).contiguous();
  const float* from = host.data_ptr<float>();
  to.insert(to.end(), from, from + host.numel());
}

// params and grads are contiguous float32 vectors on the learner's device. Synchronisation reads
// and writes host memory: on the CPU that is the very same memory, and the four copies below do
// nothing. On a GPU the host side is a pinned mirror: uploaded before a step, because it may have
// been written at the step boundary, and downloaded after it. `mirror` uses one on the CPU too, to
// test this path without a GPU.
class FlatVectors {
 public:
  FlatVectors(std::uint64_t size, at::Device device, bool mirror = false) {
    const auto length = std::int64_t(size);
    const auto options = at::TensorOptions().dtype(at::kFloat);
    params_ = at::zeros({length}, options.device(device));
    grads_ = at::zeros({length}, options.device(device));
    mirror = mirror || !device.is_cpu();
    const auto host = options.pinned_memory(device.is_cuda());
    host_params_ = mirror ? at::zeros({length}, host) : params_;
    host_grads_ = mirror ? at::zeros({length}, host) : grads_;
  }

  const at::Tensor& params() const { return params_; }
  const at::Tensor& grads() const { return grads_; }
  std::span<float> host_params() const { return span(host_params_); }
  std::span<float> host_grads() const { return span(host_grads_); }

  void upload_params() const { copy(params_, host_params_); }
  void upload_grads() const { copy(grads_, host_grads_); }
  void download_params() const { copy(host_params_, params_); }
  void download_grads() const { copy(host_grads_, grads_); }

 private:
  static std::span<float> span(const at::Tensor& t) {
    return {t.data_ptr<float>(), std::size_t(t.numel())};
  }
  void copy(const at::Tensor& to, const at::Tensor& from) const {
    if (to.is_same(from)) return;
    at::NoGradGuard no_grad;
    to.copy_(from);  // blocks, also from a device: both sides are readable when it returns
  }

  at::Tensor params_, grads_, host_params_, host_grads_;
};

}  // namespace longhaul::learn
