#include "longhaul/learn/testing/bare_loop.h"

#include <torch/nn.h>
#include <torch/optim.h>

#include <cmath>
#include <limits>

#include "longhaul/learn/batch_loader.h"
#include "longhaul/learn/loss.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/threads.h"

namespace longhaul::learn::testing {
namespace {

namespace nn = torch::nn;

// The registered models once more, with torch::nn and its layers: what the TorchScript texts are
// compared with.
struct Lenet : nn::Module {
  Lenet(const std::vector<std::int64_t>& in, std::int64_t classes)
      : conv1(register_module(
            "conv1", nn::Conv2d(nn::Conv2dOptions(in[0], 6, 5).padding(in[1] == 28 ? 2 : 0)))),
        conv2(register_module("conv2", nn::Conv2d(nn::Conv2dOptions(6, 16, 5)))),
        fc1(register_module("fc1", nn::Linear(400, 120))),
        fc2(register_module("fc2", nn::Linear(120, 84))),
        fc3(register_module("fc3", nn::Linear(84, classes))) {}
  at::Tensor forward(at::Tensor x) {
    x = at::max_pool2d(at::relu(conv1(x)), {2, 2});
    x = at::max_pool2d(at::relu(conv2(x)), {2, 2});
    x = at::relu(fc1(x.flatten(1)));
    return fc3(at::relu(fc2(x)));
  }
  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2, fc3;
};

struct Mlp : nn::Module {  // linear and logistic too: no hidden layer
  Mlp(std::vector<std::int64_t> widths, bool single) {
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      layers.push_back(register_module(single ? "linear" : "fc" + std::to_string(i + 1),
                                       nn::Linear(widths[i], widths[i + 1])));
  }
  at::Tensor forward(at::Tensor x) {
    x = x.flatten(1);
    for (std::size_t i = 0; i < layers.size(); ++i)
      x = i + 1 < layers.size() ? at::relu(layers[i](x)) : layers[i](x);
    return x;
  }
  std::vector<nn::Linear> layers;
};

struct Resnet20 : nn::Module {
  Resnet20(const std::vector<std::int64_t>& in, std::int64_t classes, bool batch)
      : batch_norm(batch) {
    add(in[0], 16, 1, "conv1", "norm1");
    std::int64_t width = 16;
    for (int stage = 1; stage <= 3; ++stage)
      for (int i = 1; i <= 3; ++i) {
        const std::int64_t out = std::int64_t{8} << stage;
        const std::string name = "block" + std::to_string(stage) + std::to_string(i);
        add(width, out, width == out ? 1 : 2, name + "_conv1", name + "_norm1");
        add(out, out, 1, name + "_conv2", name + "_norm2");
        width = out;
      }
    fc = register_module("fc", nn::Linear(64, classes));
  }
  void add(std::int64_t in, std::int64_t out, std::int64_t stride, const std::string& conv,
           const std::string& norm) {
    convs.push_back(register_module(
        conv, nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false))));
    if (batch_norm) {
      batch_norms.push_back(register_module(norm, nn::BatchNorm2d(out)));
    } else {
      group_norms.push_back(register_module(norm, nn::GroupNorm(8, out)));
    }
  }
  at::Tensor layer(std::size_t i, const at::Tensor& x) {
    return batch_norm ? batch_norms[i](convs[i](x)) : group_norms[i](convs[i](x));
  }
  at::Tensor forward(at::Tensor x) {
    x = at::relu(layer(0, x));
    for (std::size_t i = 1; i < convs.size(); i += 2) {
      at::Tensor y = layer(i + 1, at::relu(layer(i, x)));
      if (y.size(1) != x.size(1)) {
        const std::int64_t more = x.size(1) / 2;
        x = x.slice(2, 0, {}, 2).slice(3, 0, {}, 2);
        x = at::constant_pad_nd(x, {0, 0, 0, 0, more, more});
      }
      x = at::relu(x + y);
    }
    return fc(x.mean({2, 3}));
  }
  bool batch_norm;
  std::vector<nn::Conv2d> convs;
  std::vector<nn::BatchNorm2d> batch_norms;
  std::vector<nn::GroupNorm> group_norms;
  nn::Linear fc = nullptr;
};

struct Gpt : nn::Module {
  Gpt(const ModelConfig& config, std::int64_t context, std::int64_t outputs)
      : heads(config.heads), width(config.width) {
    embed = register_module("embed", nn::Embedding(outputs, width));
    position = register_module("position", nn::Embedding(context, width));
    for (std::uint32_t i = 1; i <= config.layers; ++i) {
      const std::string name = "block" + std::to_string(i);
      norms.push_back(norm_of(name + "_norm1"));
      linears.push_back(register_module(name + "_qkv", nn::Linear(width, 3 * width)));
      linears.push_back(register_module(name + "_out", nn::Linear(width, width)));
      norms.push_back(norm_of(name + "_norm2"));
      linears.push_back(register_module(name + "_fc1", nn::Linear(width, 4 * width)));
      linears.push_back(register_module(name + "_fc2", nn::Linear(4 * width, width)));
    }
    norms.push_back(norm_of("norm"));
  }
  nn::LayerNorm norm_of(const std::string& name) {
    return register_module(name, nn::LayerNorm(nn::LayerNormOptions({width})));
  }
  at::Tensor attention(const at::Tensor& y, std::size_t block) {
    const auto n = y.size(0), t = y.size(1), each = width / heads;
    const auto all = linears[4 * block](y).view({n, t, 3, heads, each}).permute({2, 0, 3, 1, 4});
    at::Tensor scores = at::matmul(all[0], all[1].transpose(2, 3)) * (1 / std::sqrt(double(each)));
    const at::Tensor future = at::ones({t, t}, y.options().dtype(at::kLong)).triu(1).to(at::kBool);
    scores = at::softmax(scores.masked_fill(future, -std::numeric_limits<float>::infinity()), 3);
    const at::Tensor mixed = at::matmul(scores, all[2]).transpose(1, 2).reshape({n, t, width});
    return linears[4 * block + 1](mixed);
  }
  at::Tensor forward(at::Tensor x) {
    x = embed(x) + position->weight.slice(0, 0, x.size(1));
    for (std::size_t i = 0; i + 1 < norms.size(); i += 2) {
      x = x + attention(norms[i](x), i / 2);
      x = x + linears[2 * i + 3](at::gelu(linears[2 * i + 2](norms[i + 1](x))));
    }
    return at::matmul(norms.back()(x), embed->weight.t());
  }
  std::int64_t heads, width;
  nn::Embedding embed = nullptr, position = nullptr;
  std::vector<nn::LayerNorm> norms;
  std::vector<nn::Linear> linears;
};

struct Clicks : nn::Module {
  Clicks(const ModelConfig& config, const DataShape& data)
      : embed(register_module("embed", nn::Embedding(data.tables[0], config.factors))) {
    auto width = std::int64_t(data.tables.size()) * config.factors;
    std::vector<double> units = config.hidden;
    units.push_back(data.outputs == 2 ? 1 : double(data.outputs));
    for (const double out : units) {
      layers.push_back(register_module("fc" + std::to_string(layers.size() + 1),
                                       nn::Linear(width, std::int64_t(out))));
      width = std::int64_t(out);
    }
  }
  at::Tensor forward(at::Tensor x) {
    x = embed(x.to(at::kLong)).flatten(1);
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) x = at::relu(layers[i](x));
    return layers.back()(x);
  }
  nn::Embedding embed;
  std::vector<nn::Linear> layers;
};

// A torch::nn module of that kind for these data; its state_dict has the names of the layout. Its
// forward is called through `run`.
struct NnModel {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> run;

  // Sets parameters and buffers by name from a flat vector of the layout.
  void assign(const Layout& layout, std::span<const float> flat) {
    at::NoGradGuard no_grad;
    auto tensors = module->named_parameters();
    for (const auto& buffer : module->named_buffers()) tensors.insert(buffer.key(), buffer.value());
    for (const LayerRange& layer : layout.layers())
      tensors[layer.name].copy_(at::from_blob(const_cast<float*>(flat.data()) + layer.range.offset,
                                              layer.shape, at::kFloat));
  }
  // The same the other way round.
  std::vector<float> flat(const Layout& layout) const {
    at::NoGradGuard no_grad;
    std::vector<float> values(layout.size());
    auto tensors = module->named_parameters();
    for (const auto& buffer : module->named_buffers()) tensors.insert(buffer.key(), buffer.value());
    for (const LayerRange& layer : layout.layers())
      at::from_blob(values.data() + layer.range.offset, layer.shape, at::kFloat)
          .copy_(tensors[layer.name]);
    return values;
  }
};

template <class M>
NnModel wrap(std::shared_ptr<M> module) {
  return {module, [module](const at::Tensor& x) { return module->forward(x); }};
}

NnModel make_nn_model(const ModelConfig& config, const DataShape& data) {
  const std::int64_t out = data.outputs;
  if (config.kind == "lenet") return wrap(std::make_shared<Lenet>(data.sample, out));
  if (config.kind == "resnet20")
    return wrap(std::make_shared<Resnet20>(data.sample, out, config.norm == "batch"));
  if (config.kind == "gpt")
    return wrap(std::make_shared<Gpt>(config, std::int64_t(data.width()), out));
  if (config.kind == "clicks") return wrap(std::make_shared<Clicks>(config, data));
  std::vector<std::int64_t> widths = {std::int64_t(data.width())};
  const bool single = config.kind != "mlp";
  if (!single)
    for (double units : config.hidden) widths.push_back(std::int64_t(units));
  widths.push_back(config.kind == "logistic" && out == 2 ? 1 : out);
  return wrap(std::make_shared<Mlp>(widths, single));
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerConfig& c,
                                                        std::vector<at::Tensor> params) {
  using namespace torch::optim;
  if (c.kind == "sgd")
    return std::make_unique<SGD>(
        params,
        SGDOptions(c.rate).momentum(c.inertia()).nesterov(c.looks_ahead()).weight_decay(c.decay()));
  if (c.kind == "adagrad")
    return std::make_unique<Adagrad>(params,
                                     AdagradOptions(c.rate).eps(c.epsilon).weight_decay(c.decay()));
  if (c.kind == "adam")
    return std::make_unique<Adam>(
        params,
        AdamOptions(c.rate).betas({c.beta1, c.beta2}).eps(c.epsilon).weight_decay(c.decay()));
  return std::make_unique<AdamW>(
      params,
      AdamWOptions(c.rate).betas({c.beta1, c.beta2}).eps(c.epsilon).weight_decay(c.decay()));
}

}  // namespace

struct BareLoop::Impl {
  std::shared_ptr<const DataSet> data;
  std::shared_ptr<const Layout> layout;
  NnModel model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  BatchLoader batches;
  at::Device device;
};

BareLoop::BareLoop(const LearnerParts& parts) {
  use_one_thread_per_learner();
  const DataShape& shape = parts.data->shape;
  NnModel model = make_nn_model(parts.model, shape);
  const auto layout = exchanged_layout(parts.model, outline_of(parts.model, shape)->layout);
  model.assign(*layout, *initial_model(parts.model, shape, parts.seed));
  const at::Device device = *choose_device(parts.model, parts.origin);
  model.module->to(device);
  auto optimizer = make_optimizer(parts.optimizer, model.module->parameters());
  impl_ = std::unique_ptr<Impl>(new Impl{parts.data, layout, std::move(model), std::move(optimizer),
                                         BatchLoader(parts), device});
}

BareLoop::~BareLoop() = default;

double BareLoop::step() {
  const Batch batch = impl_->batches.next().to(impl_->device);
  impl_->optimizer->zero_grad();
  const at::Tensor loss =
      batch_loss({impl_->model.run(batch.input), {}}, batch.target, impl_->data->shape.task);
  loss.backward();
  impl_->optimizer->step();
  return loss.item<double>();
}

std::vector<float> BareLoop::params() const { return impl_->model.flat(*impl_->layout); }

}  // namespace longhaul::learn::testing
