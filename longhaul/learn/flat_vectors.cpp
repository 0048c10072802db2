#include "longhaul/learn/flat_vectors.h"

namespace longhaul::learn {

FlatVectors::FlatVectors(std::uint64_t size, at::Device device, bool mirror) {
  const auto length = std::int64_t(size);
  const auto options = at::TensorOptions().dtype(at::kFloat);
  params_ = at::zeros({length}, options.device(device));
  grads_ = at::zeros({length}, options.device(device));
  mirror = mirror || !device.is_cpu();
  const auto host = options.pinned_memory(device.is_cuda());
  host_params_ = mirror ? at::zeros({length}, host) : params_;
  host_grads_ = mirror ? at::zeros({length}, host) : grads_;
}

void FlatVectors::copy(const at::Tensor& to, const at::Tensor& from) const {
  if (to.is_same(from)) return;
  at::NoGradGuard no_grad;
  to.copy_(from);  // blocks, also from a device: both sides are readable when it returns
}

}  // namespace longhaul::learn
