#include "longhaul/learn/scorer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include "longhaul/learn/batch_loader.h"
#include "longhaul/learn/device.h"
#include "longhaul/learn/loss.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/threads.h"
#include "longhaul/learn/torch_error.h"

namespace longhaul::learn {
namespace {

class TorchScorer final : public Scorer {
 public:
  TorchScorer(ModelConfig config, std::shared_ptr<const DataSet> test, at::Device device)
      : config_(std::move(config)), test_(std::move(test)), device_(device) {
    // The logits of a part of text are 1 KiB a byte.
    if (test_->shape.task == Task::text)
      size_ = std::clamp<std::size_t>(65536 / test_->shape.width(), 1, kPart);
  }

  std::size_t parts() const override { return (test_->size() + size_ - 1) / size_; }

  Result<Part> part(std::span<const float> model, std::size_t i) override {
    prepare_compute_thread();
    return guarded<Part>("the model cannot be scored", [&]() -> Result<Part> {
      auto net = borrow();
      if (!net) return net.error();
      if ((*net)->layout()->size() != model.size())
        return invalid("a model of " + std::to_string(model.size()) +
                       " numbers cannot be scored as [model] kind = \"" + config_.kind +
                       "\", which has " + std::to_string((*net)->layout()->size()));
      (*net)->assign(model);
      const Part part = score_part(**net, i);
      const std::lock_guard lock(mutex_);
      free_.push_back(*std::move(net));
      return part;
    });
  }

  Result<Evaluation> score(std::span<const float> model, unsigned threads) override {
    std::vector<Result<Part>> answers(parts(), Part{});
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i; (i = next++) < answers.size();) answers[i] = part(model, i);
    };
    {
      std::vector<std::jthread> more;
      for (unsigned i = 1; i < threads; ++i) more.emplace_back(work);
      work();
    }
    std::vector<Part> in_order;
    for (const auto& answer : answers) {
      if (!answer) return answer.error();
      in_order.push_back(*answer);
    }
    return combine(in_order);
  }

 private:
  // A net that nobody else uses; a new one where all are at work.
  Result<std::unique_ptr<Net>> borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto net = std::move(free_.back());
        free_.pop_back();
        return net;
      }
    }
    auto net = Net::make(config_, test_->shape, device_);
    if (!net) return net.error();
    return std::make_unique<Net>(*std::move(net));
  }

  Part score_part(Net& net, std::size_t i) const {
    at::NoGradGuard no_grad;
    std::vector<std::uint32_t> samples(std::min(size_, test_->size() - i * size_));
    std::iota(samples.begin(), samples.end(), std::uint32_t(i * size_));
    const Batch batch = gather(*test_, samples).to(device_);
    const at::Tensor output = net.forward(batch.input, false);
    const Task task = test_->shape.task;
    const std::size_t predicted =
        task == Task::text ? std::size_t(batch.target.numel()) : samples.size();
    return {batch_loss(output, batch.target, task).item<double>() * double(predicted),
            batch_correct(output, batch.target, task), predicted};
  }

  const ModelConfig config_;
  const std::shared_ptr<const DataSet> test_;
  const at::Device device_;
  std::size_t size_ = kPart;  // of a part
  std::mutex mutex_;
  std::vector<std::unique_ptr<Net>> free_;
};

}  // namespace

Evaluation Scorer::combine(std::span<const Part> in_order) {
  Evaluation evaluation;
  std::uint64_t correct = 0;
  for (const Part& part : in_order) {
    evaluation.loss += part.loss;
    evaluation.samples += part.samples;
    correct += part.correct;
  }
  if (evaluation.samples == 0) return evaluation;
  evaluation.loss /= double(evaluation.samples);
  evaluation.accuracy = double(correct) / double(evaluation.samples);
  return evaluation;
}

Result<std::unique_ptr<Scorer>> make_scorer(const ModelConfig& config,
                                            std::shared_ptr<const DataSet> test) {
  use_one_thread_per_learner();
  auto device = choose_device(config, 0);
  if (!device) return device.error();
  auto net = Net::make(config, test->shape, *device);  // says now what cannot work
  if (!net) return net.error();
  return std::unique_ptr<Scorer>(std::make_unique<TorchScorer>(config, std::move(test), *device));
}

}  // namespace longhaul::learn
