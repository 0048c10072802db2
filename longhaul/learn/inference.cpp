#include "longhaul/learn/inference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "longhaul/base/fields.h"
#include "longhaul/core/cheap_models.h"
#include "longhaul/learn/flat_vectors.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/script.h"
#include "longhaul/learn/threads.h"
#include "longhaul/learn/torch_error.h"

namespace longhaul::learn {
namespace {

struct InferenceModel {
  std::string path;
  torch::jit::Module module;
};

struct Answered {
  at::Tensor scores, features;  // [items, ...], on the CPU
};

Result<InferenceModel> read_model(std::istream& in, const std::string& name, at::Device device) {
  return guarded<InferenceModel>("'" + name + "' cannot be loaded as a TorchScript module",
                                 [&]() -> Result<InferenceModel> {
                                   LH_LET(module, read_script(in, name, device));
                                   module.eval();
                                   return InferenceModel{name, std::move(module)};
                                 });
}

Result<InferenceModel> read_model_file(const std::string& path, at::Device device) {
  if (!std::filesystem::is_regular_file(path))
    return unavailable("there is no file '" + path +
                       "': give the path of a TorchScript module; a run's model.pt is one");
  std::ifstream in(path, std::ios::binary);
  return read_model(in, path, device);
}

class InferenceLearner final : public Learner, public CheapModels {
 public:
  InferenceLearner(InferenceParts parts, at::Device device)
      : parts_(std::move(parts)), device_(device), layout_(Layout::flat(1)) {}
  Status load() {
    std::vector<std::string> paths = {parts_.accurate};
    for (const InferenceParts::Cheap& cheap : parts_.cheap) paths.push_back(cheap.path);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (i == 0 && paths[0].empty()) {
        models_.emplace_back();
        continue;
      }
      LH_LET(model, read_model_file(paths[i], device_));
      models_.push_back(std::move(model));
      const std::int64_t own =
          i == 0 ? parts_.shape.outputs : std::int64_t(parts_.cheap[i - 1].specialised) + 1;
      LH_TRY(try_out(models_.back(), own));
    }
    return Ok{};
  }

  std::shared_ptr<const Layout> layout() const override { return layout_; }
  std::span<float> params() override { return {}; }
  std::span<float> grads() override { return {}; }
  Result<StepResult> step(const Work& work) override {
    const auto* infer = std::get_if<Infer>(&work);
    if (!infer) return invalid("the models of an index cannot be trained");
    StepResult result{.samples = infer->items.size()};
    for (const Item& item : infer->items)
      if (item.values.size() != parts_.shape.width())
        return invalid("an item of " + std::to_string(item.values.size()) + " numbers, expected " +
                       std::to_string(parts_.shape.width()));
    const bool accurate = infer->model == Infer::Model::accurate;
    const std::uint32_t number = accurate ? 0 : cheap_number(infer->model);
    if (!accurate && number >= parts_.cheap.size()) return invalid("there is no such cheap model");
    if (accurate && parts_.accurate.empty()) return invalid("there is no accurate model");
    LH_LET(answered, answer(models_[accurate ? 0 : number + 1], infer->items));
    if (!accurate) {
      LH_TRY(add_cheap(answered, parts_.cheap[number], result));
      return result;
    }
    append_values(result.outputs, answered.scores.argmax(1).to(at::kFloat));
    return result;
  }

  void state(Archive&) override {}
  Status put_cheap(std::uint32_t number, std::span<const std::uint32_t> classes,
                   std::span<const std::byte> file) override {
    LH_CHECK(number <= parts_.cheap.size());
    const auto all = std::uint32_t(parts_.shape.outputs);
    for (const std::uint32_t cls : classes)
      if (cls >= all) return invalid("class " + std::to_string(cls) + ": unknown");
    InferenceParts::Cheap cheap{"the given model",
                                classes.empty() ? all : std::uint32_t(classes.size())};
    cheap.classes.assign(classes.begin(), classes.end());
    std::istringstream in(std::string(reinterpret_cast<const char*>(file.data()), file.size()));
    LH_LET(model, read_model(in, cheap.path, device_));
    LH_TRY(try_out(model, std::int64_t(cheap.specialised) + 1));
    if (number == parts_.cheap.size()) {
      parts_.cheap.push_back(std::move(cheap));
      models_.push_back(std::move(model));
    } else {
      parts_.cheap[number] = std::move(cheap);
      models_[number + 1] = std::move(model);
    }
    return Ok{};
  }

 private:
  // Two items say now what cannot work later. `own`: of a cheap model's scores, OTHER too.
  Status try_out(InferenceModel& model, std::int64_t own) {
    const std::size_t width = parts_.shape.width();
    const std::vector<Item> two = {Item{0, 1, Time{0}, std::vector<float>(width, 0)},
                                   Item{0, 1, Time{0}, std::vector<float>(width, 1)}};
    LH_LET(answered, answer(model, two));
    if (!at::isfinite(answered.scores).all().item<bool>() ||
        !at::isfinite(answered.features).all().item<bool>())
      return invalid("'" + model.path +
                     "' answers numbers that are not finite: did its training diverge?");
    if (double(answered.features.size(1)) > kDefaultMaxElements)  // what a log reads back
      return invalid("'" + model.path + "' answers features of " +
                     std::to_string(answered.features.size(1)) + " numbers, expected at most " +
                     std::to_string(std::uint32_t(kDefaultMaxElements)));
    const std::int64_t found = answered.scores.size(1), all = parts_.shape.outputs;
    if (found == all || found == own) return Ok{};  // equal: one for each class
    return invalid("'" + model.path + "' answers " + std::to_string(found) +
                   " scores for an item, expected " + std::to_string(all) +
                   ", one for each class of [data]" +
                   (own == all ? "" : ", or " + std::to_string(own) + " with OTHER the last"));
  }

  Result<Answered> answer(InferenceModel& model, const std::vector<Item>& items) {
    prepare_compute_thread();
    return guarded<Answered>("'" + model.path + "' does not take these items", [&] {
      at::NoGradGuard no_grad;
      const auto width = std::int64_t(parts_.shape.width());
      at::Tensor batch = at::empty({std::int64_t(items.size()), width}, at::kFloat);
      for (std::size_t i = 0; i < items.size(); ++i)
        std::copy(items[i].values.begin(), items[i].values.end(),
                  batch.data_ptr<float>() + std::int64_t(i) * width);
      std::vector<std::int64_t> sizes = {std::int64_t(items.size())};
      sizes.insert(sizes.end(), parts_.shape.sample.begin(), parts_.shape.sample.end());
      const auto output = model.module.forward({batch.view(sizes).to(device_)});
      const auto tensor = [&](const c10::IValue& value) {
        const at::Tensor t = value.toTensor().to(at::kCPU, at::kFloat).contiguous();
        TORCH_CHECK(t.dim() >= 1 && t.size(0) == sizes[0], "it answers ", t.sizes(), " for ",
                    sizes[0], " items");
        return t.reshape({sizes[0], -1});
      };
      if (!output.isTuple()) {
        const at::Tensor scores = tensor(output);
        return Result<Answered>(Answered{scores, scores});
      }
      const auto& pair = output.toTupleRef().elements();
      TORCH_CHECK(pair.size() == 2, "it answers ", pair.size(), " tensors, expected 1 or 2");
      return Result<Answered>(Answered{tensor(pair[0]), tensor(pair[1])});
    });
  }

  // A feature vector and a score for each specialised class and OTHER, item after item.
  Status add_cheap(const Answered& answered, const InferenceParts::Cheap& cheap,
                   StepResult& result) const {
    at::Tensor logs = at::log_softmax(answered.scores, 1);
    const std::int64_t own = cheap.specialised, found = logs.size(1);
    if (!cheap.classes.empty() &&
        found == parts_.shape.outputs) {  // those of the list to the front
      std::vector<std::int64_t> order(cheap.classes.begin(), cheap.classes.end());
      for (std::int64_t cls = 0; cls < found; ++cls)
        if (std::find(order.begin(), order.end(), cls) == order.end()) order.push_back(cls);
      logs = logs.index_select(1, at::tensor(order));
    }
    const at::Tensor other =
        found > own ? at::logsumexp(logs.slice(1, own), {1}, true)
                    : at::full({logs.size(0), 1}, std::numeric_limits<float>::lowest());
    append_values(result.outputs, at::cat({answered.features, logs.slice(1, 0, own), other}, 1));
    return Ok{};
  }

  InferenceParts parts_;
  at::Device device_;
  std::shared_ptr<const Layout> layout_;
  std::vector<InferenceModel> models_;  // the accurate one, then the cheap ones
};

}  // namespace

Result<std::unique_ptr<Learner>> make_inference(const InferenceParts& parts) {
  use_one_thread_per_learner();
  ModelConfig config;
  config.device = parts.device;
  LH_LET(device, choose_device(config, parts.rank));
  auto learner = std::make_unique<InferenceLearner>(parts, device);
  LH_TRY(learner->load());
  return std::unique_ptr<Learner>(std::move(learner));
}

}  // namespace longhaul::learn
