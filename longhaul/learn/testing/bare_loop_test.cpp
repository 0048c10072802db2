#include "longhaul/learn/testing/bare_loop.h"

#include <torch/optim.h>

#include "longhaul/learn/batch_loader.h"
#include "longhaul/learn/device.h"
#include "longhaul/learn/loss.h"
#include "longhaul/learn/testing/nn_models.h"
#include "longhaul/learn/threads.h"

namespace longhaul::learn::testing {
namespace {

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
