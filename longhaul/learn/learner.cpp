#include "longhaul/learn/learner.h"

#include <ATen/core/grad_mode.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <mutex>

#include "longhaul/learn/loss.h"
#include "longhaul/learn/threads.h"
#include "longhaul/learn/torch_error.h"
#include "longhaul/learn/torch_learner.h"

namespace longhaul::learn {
namespace {

std::string name_of(const ModelConfig& model) {
  return "[model] kind = \"" + model.kind + "\"" +
         (model.path.empty() ? std::string() : " path = \"" + model.path + "\"");
}

// Cells that are missing are filled when the sites have met.
bool same(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() == other.defined() &&
         (!one.defined() || at::equal(at::nan_to_num(one), at::nan_to_num(other)));
}

Status check_sizes(const Answer& answer, const Batch& batch, const LearnerParts& parts) {
  const at::Tensor& output = answer.output;
  if (!output.defined()) return Ok{};
  const DataShape& shape = parts.data->shape;
  const std::int64_t count = batch.input.size(0);
  const bool binary = shape.task == Task::classification && shape.outputs == 2;
  if (shape.task == Task::text && output.dim() == 3 && output.size(0) == count &&
      output.size(1) == batch.input.size(1) && output.size(2) == shape.outputs)
    return Ok{};
  if (output.dim() == 2 && output.size(0) == count &&
      (output.size(1) == shape.outputs || (binary && output.size(1) == 1)))
    return Ok{};
  std::string sizes;
  for (std::int64_t extent : output.sizes()) sizes += " " + std::to_string(extent);
  const std::string n = std::to_string(count);
  return invalid(name_of(parts.model) + " answers a batch of " + n + " with a tensor of sizes" +
                 sizes + ", where these data need " + n + " x " +
                 (shape.task == Task::text ? std::to_string(batch.input.size(1)) + " x " : "") +
                 std::to_string(shape.outputs));
}

// The same samples twice, as a score takes them.
Status try_scores(Net& net, LearnerParts& parts, at::Device device) {
  const std::string name = name_of(parts.model);
  return guarded<Ok>(name + " does not take samples of this shape", [&]() -> Status {
    at::NoGradGuard no_grad;
    const std::uint32_t first = parts.shard.front();
    const Batch batch = gather(*parts.data, std::vector{first, first}).to(device);
    LH_LET(answer, net.answer(batch.input, batch.target, false, /*seed=*/1));
    LH_TRY(check_sizes(answer, batch, parts));
    LH_LET(again, net.answer(batch.input, batch.target, false, /*seed=*/2));
    if (same(answer.output, again.output) && same(answer.loss, again.loss)) return Ok{};
    return invalid(
        name +
        " answers the same samples in two ways in evaluation mode, so no two scores of a "
        "model would be equal: a traced module keeps its dropout; save "
        "torch.jit.script(model)");
  });
}

// A step without its end: what cannot train is said before the run. Also whether batch statistics
// need two samples: `parts.joins`.
Status try_step(Net& net, LearnerParts& parts, at::Device device) {
  const std::string name = name_of(parts.model);
  const auto pass = [&](std::size_t samples) -> Status {
    const Batch batch = gather(*parts.data, std::span(parts.shard).first(samples)).to(device);
    LH_LET(answer, net.answer(batch.input, batch.target, true, parts.seed));
    LH_TRY(check_sizes(answer, batch, parts));
    const at::Tensor loss = batch_loss(answer, batch.target, parts.data->shape.task);
    if (!loss.requires_grad())
      return invalid(
          name +
          " does not train: its output depends on no parameter that requires a gradient; "
          "is there a torch.no_grad() or a detach() in forward()?");
    loss.backward();
    return Ok{};
  };
  const std::string failed = name + " does not train on these data";
  const std::size_t count = std::min<std::size_t>(parts.batch, parts.shard.size());
  LH_TRY(guarded<Ok>(failed, [&] { return pass(count); }));
  if (count < 2 || parts.shard.size() % parts.batch != 1) return Ok{};
  parts.joins = !guarded<Ok>(failed, [&] { return pass(1); });
  return Ok{};
}

// On copies: a forward pass in training mode moves statistics and counters.
Status try_script(LearnerParts& parts, at::Device device) {
  for (const auto attempt : {try_scores, try_step}) {
    LH_LET(net, Net::make(parts.model, parts.data->shape, device));
    at::AutoGradMode record(true);
    if (const Status good = attempt(net, parts, device); !good) return invalid(good.error().what);
  }
  return Ok{};
}

// Makes CUDA's bits depend on the work only, and differ from the CPU's only by sums in another
// order. cuDNN must not choose kernels by timing them. Operations with a deterministic form use it;
// torch warns of a script's operations without one. cuBLAS, whose sums depend on its workspace,
// gets a workspace of fixed size. fp32 is not shortened to TF32. Environment variables that are
// already set take precedence.
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
  LH_LET(device, choose_device(parts.model, parts.origin));
  LH_LET(net, Net::make(parts.model, parts.data->shape, device));
  LH_LET(initial, initial_model(parts.model, parts.data->shape, parts.seed));
  if (net.own_loss() && !parts.class_weights.empty())
    return invalid(name_of(parts.model) + " computes its own loss: leave [data] class_weights out");
  if (parts.model.kind == "script") {
    LH_TRY(try_script(parts, device));
  } else {
    LH_TRY(try_scores(net, parts, device));
  }
  return guarded<std::unique_ptr<Learner>>(
      "the learner cannot be made", [&]() -> Result<std::unique_ptr<Learner>> {
        return std::unique_ptr<Learner>(
            std::make_unique<TorchLearner>(std::move(parts), std::move(net), device, initial));
      });
}

Result<ModelOutline> outline_of(const ModelConfig& config, const DataShape& shape) {
  if (config.kind == "script") {
    LH_LET(net, Net::make(config, shape));
    return ModelOutline{net.layout(), net.code_digest()};
  }
  LH_LET(spec, model_spec(config, shape));
  return ModelOutline{layout_of(spec)};
}

Result<std::vector<float>> initial_model(const ModelConfig& config, const DataShape& shape,
                                         std::uint64_t seed) {
  if (config.kind == "script") {
    LH_LET(net, Net::make(config, shape));
    std::vector<float> values(net.layout()->size());
    net.copy_to(values);
    return values;
  }
  LH_LET(spec, model_spec(config, shape));
  std::vector<float> values(layout_of(spec)->size());
  initialise(spec, seed, values);
  return values;
}

}  // namespace longhaul::learn
