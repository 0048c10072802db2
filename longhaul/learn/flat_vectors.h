#pragma once
// Internal to learn/ (includes torch): the two flat vectors that a model's tensors are views into.
#include <ATen/ATen.h>

#include <span>

namespace longhaul::learn {

// params and grads are contiguous float32 vectors on the learner's device. Synchronisation reads
// and writes host memory: on the CPU that is the very same memory, and the four copies below do
// nothing. On a device the host side is a pinned mirror: uploaded before a step, since anybody may
// have written it at the boundary, and downloaded behind it. `mirror` asks for one on the CPU too,
// so that this path is tested without a GPU.
class FlatVectors {
 public:
  FlatVectors(std::uint64_t size, at::Device device, bool mirror = false);

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
  void copy(const at::Tensor& to, const at::Tensor& from) const;

  at::Tensor params_, grads_, host_params_, host_grads_;
};

}  // namespace longhaul::learn
