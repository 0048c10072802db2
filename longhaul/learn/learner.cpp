#include "longhaul/learn/learner.h"

#include <ATen/core/grad_mode.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <mutex>

#include "longhaul/learn/device.h"
#include "longhaul/learn/threads.h"
#include "longhaul/learn/torch_error.h"
#include "longhaul/learn/torch_learner.h"

namespace longhaul::learn {
namespace {

// A model of a file is tried once, so that what it cannot take is said before the run begins.
Status try_model(Net& net, const LearnerParts& parts, at::Device device) {
  const DataShape& shape = parts.data->shape;
  const std::string name =
      "[model] kind = \"" + parts.model.kind + "\"" +
      (parts.model.path.empty() ? std::string() : " path = \"" + parts.model.path + "\"");
  return guarded<Ok>(name + " does not take samples of this shape", [&]() -> Status {
    at::NoGradGuard no_grad;
    const std::uint32_t first = parts.shard.front();
    const Batch batch = gather(*parts.data, std::vector{first, first}).to(device);
    const at::Tensor output = net.forward(batch.input, false);
    const bool binary = shape.task == Task::classification && shape.outputs == 2;
    if (shape.task == Task::text && output.dim() == 3 && output.size(0) == 2 &&
        output.size(1) == batch.input.size(1) && output.size(2) == shape.outputs)
      return Ok{};
    if (output.dim() == 2 && output.size(0) == 2 &&
        (output.size(1) == shape.outputs || (binary && output.size(1) == 1)))
      return Ok{};
    std::string sizes;
    for (std::int64_t extent : output.sizes()) sizes += " " + std::to_string(extent);
    return invalid(name + " answers a batch of 2 with a tensor of sizes" + sizes +
                   ", where these data need 2 x " +
                   (shape.task == Task::text ? std::to_string(batch.input.size(1)) + " x " : "") +
                   std::to_string(shape.outputs));
  });
}

// What would make CUDA's bits depend on more than the work, or differ from the CPU's by more than
// sums in another order. cuDNN may not choose kernels by timing them; operations that have a
// deterministic form use it (torch warns of a script's that have none); cuBLAS, whose sums depend
// on its workspace, gets one of a fixed size; fp32 is not shortened to TF32. The environment may
// say otherwise.
void hold_cuda_to_equal_bits() {
  static std::once_flag once;
  std::call_once(once, [] {
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    setenv("NVIDIA_TF32_OVERRIDE", "0", /*overwrite=*/0);
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  });
}

}  // namespace

Result<at::Device> choose_device(const ModelConfig& config, std::uint32_t rank) {
  if (config.device == "cpu") return at::Device(at::kCPU);
  const bool cuda = torch::cuda::is_available();
  if (!cuda && config.device == "cuda")
    return unavailable(
        "[model] device = \"cuda\", and torch finds no CUDA device here: use "
        "\"auto\" or \"cpu\"");
  if (!cuda) return at::Device(at::kCPU);
  hold_cuda_to_equal_bits();
  return at::Device(at::kCUDA, c10::DeviceIndex(rank % torch::cuda::device_count()));
}

Result<std::unique_ptr<Learner>> make_learner(LearnerParts parts) {
  use_one_thread_per_learner();
  LH_CHECK(parts.data && parts.batch > 0);
  if (parts.shard.empty())
    return invalid("rank " + std::to_string(parts.origin) +
                   " holds no sample: use another [data] partition or fewer sites");
  auto device = choose_device(parts.model, parts.origin);
  if (!device) return device.error();
  auto net = Net::make(parts.model, parts.data->shape, *device);
  if (!net) return net.error();
  auto initial = initial_model(parts.model, parts.data->shape, parts.seed);
  if (!initial) return initial.error();
  LH_TRY(try_model(*net, parts, *device));
  return guarded<std::unique_ptr<Learner>>(
      "the learner cannot be made", [&]() -> Result<std::unique_ptr<Learner>> {
        return std::unique_ptr<Learner>(
            std::make_unique<TorchLearner>(std::move(parts), *std::move(net), *device, *initial));
      });
}

Result<std::shared_ptr<const Layout>> model_layout(const ModelConfig& config,
                                                   const DataShape& shape) {
  if (config.kind == "script") {
    auto net = Net::make(config, shape);
    if (!net) return net.error();
    return net->layout();
  }
  auto spec = model_spec(config, shape);
  if (!spec) return spec.error();
  return exchanged_layout(config, layout_of(*spec));
}

Result<std::vector<float>> initial_model(const ModelConfig& config, const DataShape& shape,
                                         std::uint64_t seed) {
  if (config.kind == "script") {
    auto net = Net::make(config, shape);
    if (!net) return net.error();
    std::vector<float> values(net->layout()->size());
    net->copy_to(values);
    return values;
  }
  auto spec = model_spec(config, shape);
  if (!spec) return spec.error();
  std::vector<float> values(layout_of(*spec)->size());
  initialise(*spec, seed, values);
  return values;
}

}  // namespace longhaul::learn
