#include "longhaul/learn/net.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "longhaul/learn/script.h"
#include "longhaul/learn/threads.h"
#include "longhaul/learn/torch_error.h"

namespace longhaul::learn {
namespace {

using torch::jit::Module;

Module empty_module(const std::string& kind,
                    const std::shared_ptr<torch::jit::CompilationUnit>& cu) {
  Module module(c10::QualifiedName("__torch__.longhaul." + kind), cu, /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

bool draws_random_numbers(const torch::jit::Block& block) {
  return std::ranges::any_of(block.nodes(), [](const torch::jit::Node* node) {
    return node->isNondeterministic() ||
           std::ranges::any_of(node->blocks(), [](const torch::jit::Block* inner) {
             return draws_random_numbers(*inner);
           });
  });
}

// Returns true if any function of the file does, including those that forward() calls.
bool draws_random_numbers(const Module& module) {
  const auto functions = module._ivalue()->compilation_unit()->get_functions();
  return std::ranges::any_of(functions, [](torch::jit::Function* function) {
    auto* graph = torch::jit::tryToGraphFunction(*function);
    return graph && draws_random_numbers(*graph->graph()->block());
  });
}

// The memory of a tensor. Two names for one tensor are tied weights: both become the same view.
// Names whose memory overlaps in part cannot be distinguished by values, and are refused.
struct Memory {
  const void* storage;
  std::int64_t offset;
  std::vector<std::int64_t> sizes, strides;

  explicit Memory(const at::Tensor& t)
      : storage(t.storage().unsafeGetStorageImpl()),
        offset(t.storage_offset()),
        sizes(t.sizes().vec()),
        strides(t.strides().vec()) {}
  bool operator==(const Memory&) const = default;
};

struct Found {
  std::string name;
  at::Tensor tensor;
  LayerRange::Role role;
};

// Returns tensors in layout order. Without a graph all of them train, or are buffers.
std::vector<Found> float_tensors(const Module& module, const ScriptGraph* graph) {
  std::vector<Found> all;
  std::set<const void*> read, written;  // a tensor may have several names
  const auto look = [&](const std::string& name, const at::Tensor& tensor) {
    if (!graph || graph->read.contains(name)) read.insert(tensor.data_ptr());
    if (!graph || graph->written.contains(name)) written.insert(tensor.data_ptr());
  };
  for (const auto& p : module.named_parameters()) look(p.name, p.value);
  for (const auto& b : module.named_buffers()) look(b.name, b.value);
  const auto add = [&](const std::string& name, const at::Tensor& tensor, bool trained) {
    if (!tensor.is_floating_point()) return;
    using Role = LayerRange::Role;
    const bool used = read.contains(tensor.data_ptr());
    const bool moves = written.contains(tensor.data_ptr());
    all.push_back({name, tensor,
                   trained && used ? Role::parameter
                   : moves         ? Role::buffer
                                   : Role::constant});
  };
  for (const auto& p : module.named_parameters()) add(p.name, p.value, p.value.requires_grad());
  for (const auto& b : module.named_buffers()) add(b.name, b.value, false);
  std::ranges::stable_sort(all, {}, &Found::role);
  return all;
}

// Returns the number of arguments of forward(): the samples, or samples and targets.
Result<std::size_t> required_inputs(const Module& module) {
  const auto& arguments = module.get_method("forward").function().getSchema().arguments();
  const auto inputs = std::size_t(std::ranges::count_if(
      arguments, [](const c10::Argument& one) { return !one.default_value(); }));
  if (inputs == 2 || inputs == 3) return inputs - 1;  // without self
  return malformed("has a forward() of " + std::to_string(inputs - 1) +
                   " arguments without a default value, expected the samples, or the samples and "
                   "their targets");
}

// Returns true for a file of torch.save, a zip file without folder code/ and without constants.
bool is_saved_object(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto holds = [&](const char* name) { return bytes.find(name) != std::string::npos; };
  return bytes.starts_with("PK") && holds("data.pkl") && !holds("constants.pkl");
}

}  // namespace

Net::Net(const Module& module) : module_(std::make_shared<Module>(module)) {}

Net Net::from_spec(ModelSpec spec, at::Device device) {
  prepare_compute_thread();
  const auto cu = std::make_shared<torch::jit::CompilationUnit>();
  Module root = empty_module(spec.kind, cu);
  std::map<std::string, Module> children;
  for (const TensorSpec& tensor : spec.tensors) {
    const std::size_t dot = tensor.name.find('.');
    const std::string child = tensor.name.substr(0, dot), leaf = tensor.name.substr(dot + 1);
    if (!children.contains(child)) {
      children.emplace(child, empty_module(child, cu));
      root.register_module(child, children.at(child));
    }
    const bool buffer = tensor.role == LayerRange::Role::buffer;
    const auto values = at::zeros(tensor.shape, at::TensorOptions(device).dtype(at::kFloat));
    children.at(child).register_parameter(leaf, values.set_requires_grad(!buffer), buffer);
  }
  root.define("def forward(self, x: Tensor) -> Tensor:\n" + spec.body + "  return x\n");
  Net net(root);
  LH_CHECK(net.collect(spec.kind, nullptr));
  LH_CHECK(net.layout_->size() == layout_of(spec)->size());
  net.layout_ = layout_of(spec);
  net.spec_ = std::move(spec);
  return net;
}

Result<Net> Net::from_file(const std::string& path, at::Device device) {
  prepare_compute_thread();
  if (!std::filesystem::is_regular_file(path))
    return unavailable("there is no file '" + path +
                       "': give the path of a TorchScript module, torch.jit.script(model).save()");
  if (is_saved_object(path))
    return malformed("'" + path +
                     "': this is a torch.save file; use torch.jit.script(model).save(path)");
  return guarded<Net>("'" + path + "' cannot be loaded as a TorchScript module",
                      [&]() -> Result<Net> {
                        std::ifstream in(path, std::ios::binary);
                        LH_LET(module, read_script(in, path, device));
                        Net net(module);
                        if (!net.module_->find_method("forward"))
                          return malformed("'" + path + "' has no method forward");
                        const ScriptGraph graph = read_graph(*net.module_);
                        LH_TRY(net.collect(path, &graph));
                        net.code_digest_ = graph.digest;
                        net.random_ = draws_random_numbers(*net.module_);
                        net.file_ = path;
                        const auto inputs = required_inputs(*net.module_);
                        if (!inputs) return malformed("'" + path + "' " + inputs.error().what);
                        net.own_loss_ = *inputs == 2;
                        return net;
                      });
}

Result<Net> Net::make(const ModelConfig& config, const DataShape& shape, at::Device device) {
  if (config.kind == "script") {
    auto net = from_file(config.path, device);
    if (net) net->output_ = config.output;
    if (net) return net;
    return Error{net.error().kind, "[model] path: " + net.error().what};
  }
  LH_LET(entry, find_model(config.kind));
  if (entry->phantom)
    return invalid("[model] kind = \"" + config.kind +
                   "\" has sizes and no numbers: it cannot be trained or scored");
  LH_LET(spec, model_spec(config, shape));
  return from_spec(std::move(spec), device);
}

Status Net::collect(const std::string& file, const ScriptGraph* graph) {
  std::vector<LayerRange> layers;
  std::vector<Memory> memories;
  std::uint64_t offset = 0;
  for (Found& found : float_tensors(*module_, graph)) {
    if (found.tensor.scalar_type() != at::kFloat)
      return malformed("'" + file + "': '" + found.name + "' is " +
                       c10::toString(found.tensor.scalar_type()) +
                       " and not float32: convert the module with .float() before saving it");
    const Memory memory(found.tensor);
    const auto tied = std::ranges::find(memories, memory);
    if (tied != memories.end()) {
      tensors_[std::size_t(tied - memories.begin())].push_back(found.tensor);
      continue;
    }
    if (std::ranges::count(memories, memory.storage, &Memory::storage) && found.tensor.numel() > 0)
      return malformed("'" + file + "': '" + found.name +
                       "' shares a part of its memory with another parameter: give it its own "
                       "with .clone() before saving the module");
    const auto length = std::uint64_t(found.tensor.numel());
    layers.push_back({found.name, {offset, length}, found.tensor.sizes().vec(), found.role});
    offset += length;
    memories.push_back(memory);
    tensors_.push_back({found.tensor});
  }
  layout_ = std::make_shared<const Layout>(std::move(layers));
  if (layout_->parameters().length == 0)
    return malformed("'" + file +
                     "' has no parameter that requires a gradient and that forward() uses");
  return Ok{};
}

at::Tensor Net::view(const at::Tensor& flat, std::size_t layer) const {
  const LayerRange& entry = layout_->layers()[layer];
  return flat.narrow(0, std::int64_t(entry.range.offset), std::int64_t(entry.range.length))
      .view(entry.shape);
}

void Net::copy_to(std::span<float> flat) const {
  at::NoGradGuard no_grad;
  LH_CHECK(flat.size() == layout_->size());
  const at::Tensor whole = at::from_blob(flat.data(), {std::int64_t(flat.size())}, at::kFloat);
  for (std::size_t i = 0; i < tensors_.size(); ++i) view(whole, i).copy_(tensors_[i].front());
}

void Net::assign(std::span<const float> flat) {
  at::NoGradGuard no_grad;
  LH_CHECK(flat.size() == layout_->size());
  const at::Tensor whole =
      at::from_blob(const_cast<float*>(flat.data()), {std::int64_t(flat.size())}, at::kFloat);
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].front().copy_(view(whole, i));
}

void Net::bind(const at::Tensor& params, const at::Tensor& grads) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const bool trained = layout_->layers()[i].role == LayerRange::Role::parameter;
    for (at::Tensor& tensor : tensors_[i]) {
      if (!grads.defined()) tensor.set_requires_grad(false);
      tensor.set_data(view(params, i));
      if (grads.defined() && trained) tensor.mutable_grad() = view(grads, i);
    }
  }
}

void Net::set_training(bool train) {
  if (training_ == train) return;
  module_->train(train);
  training_ = train;
}

c10::IValue Net::run(std::vector<c10::IValue> inputs, bool train, std::uint64_t seed) {
  prepare_compute_thread();
  set_training(train);
  // Torch has one generator per process. Seeded and used by one model at a time, it gives each
  // model the same numbers in any order of threads.
  static std::mutex generator;
  std::unique_lock<std::mutex> lock(generator, std::defer_lock);
  if (random_ && train) {
    lock.lock();
    at::manual_seed(seed);
  }
  return module_->forward(std::move(inputs));
}

at::Tensor Net::forward(const at::Tensor& input, bool train, std::uint64_t seed) {
  return run({input}, train, seed).toTensor();
}

Result<Answer> Net::answer(const at::Tensor& input, const at::Tensor& target, bool train,
                           std::uint64_t seed) {
  std::vector<c10::IValue> inputs = {input};
  if (own_loss_) inputs.emplace_back(target);
  auto answer = read_answer(run(std::move(inputs), train, seed), output_, own_loss_);
  if (answer) return answer;
  return Error{answer.error().kind, "'" + file_ + "' " + answer.error().what};
}

at::Tensor Net::forward(const at::Tensor& input, std::span<const std::uint32_t> linears,
                        std::vector<LinearActivations>& activations) {
  prepare_compute_thread();
  LH_CHECK(spec_);
  set_training(true);
  if (!records_activations_) {  // compiled when first asked for
    std::string list = "x";
    for (const LinearSpec& l : spec_->linears)
      list += ", in_" + std::to_string(l.index) + ", out_" + std::to_string(l.index);
    module_->define("def taps(self, x: Tensor) -> List[Tensor]:\n" + spec_->body + "  return [" +
                    list + "]\n");
    records_activations_ = true;
  }
  const auto list = module_->get_method("taps")({input}).toTensorVector();
  for (const std::uint32_t linear : linears) {
    LH_CHECK(linear < spec_->linears.size());
    activations.push_back({list[1 + 2 * linear], list[2 + 2 * linear]});
  }
  return list[0];
}

at::Tensor Net::forward_part(std::uint32_t first, std::uint32_t end, const at::Tensor& input,
                             std::vector<LinearActivations>& activations) {
  prepare_compute_thread();
  LH_CHECK(spec_ && spec_->is_chain);
  set_training(true);
  const auto statement = [&](std::uint32_t entry) {
    if (entry == 0) return std::size_t(0);
    const auto linear = linear_at(entry);
    return linear ? spec_->linears[*linear].begins : spec_->body.size();
  };
  const std::size_t from = statement(first), to = statement(end);
  std::string list = "x";
  for (const LinearSpec& l : spec_->linears)
    if (l.begins >= from && l.begins < to)
      list += ", in_" + std::to_string(l.index) + ", out_" + std::to_string(l.index);
  const std::string name = "part_" + std::to_string(first) + "_" + std::to_string(end);
  if (!module_->find_method(name))  // compiled when first asked for
    module_->define("def " + name + "(self, x: Tensor) -> List[Tensor]:\n" +
                    spec_->body.substr(from, to - from) + "  return [" + list + "]\n");
  const auto values = module_->get_method(name)({input}).toTensorVector();
  for (std::size_t i = 1; i + 1 < values.size(); i += 2)
    activations.push_back({values[i], values[i + 1]});
  return values.front();
}

Result<std::uint32_t> Net::linear_at(std::uint32_t layer) const {
  if (spec_ && layer < spec_->tensors.size())
    for (const LinearSpec& linear : spec_->linears)
      if (linear.weight == spec_->tensors[layer].name) return linear.index;
  return invalid(
      "sufficient factors need the weight of a linear layer of a registered model, and "
      "entry " +
      std::to_string(layer) + " of this layout is none");
}

Result<std::vector<std::uint32_t>> Net::cuts() const {
  if (!spec_ || !spec_->is_chain || layout_->buffers().length > 0)
    return invalid(
        "a backward pass in parts needs a registered model whose layers follow one another, "
        "without running statistics: mlp, logistic, linear, lenet. sfb: set [sync] wait_free = "
        "false; instead of p3: bsp");
  std::vector<std::uint32_t> entries;
  for (std::uint32_t i = 0; i < layout_->layers().size(); ++i)
    if (linear_at(i)) entries.push_back(i);
  return entries;
}

Result<std::string> Net::file() {
  return guarded<std::string>("cannot write the model as a file", [&]() -> Result<std::string> {
    set_training(false);
    std::ostringstream bytes;
    module_->save(bytes);
    return std::move(bytes).str();
  });
}

}  // namespace longhaul::learn
