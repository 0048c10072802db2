#include "longhaul/learn/scorer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include "longhaul/learn/batch_loader.h"
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
    constexpr std::size_t kLogits = std::size_t{1} << 24;  // of a part
    if (test_->shape.task == Task::text)
      size_ = std::clamp<std::size_t>(
          kLogits / std::size_t(test_->shape.outputs) / test_->shape.width(), 1, kPart);
  }

  std::size_t parts(TestRows rows) const override {
    return (std::min(rows.end, test_->size()) - rows.first + size_ - 1) / size_;
  }

  Result<Part> part(std::span<const float> model, std::size_t i, TestRows rows) override {
    prepare_compute_thread();
    return guarded<Part>("the model cannot be scored", [&]() -> Result<Part> {
      auto net = borrow();
      if (!net) return net.error();
      if ((*net)->layout()->size() != model.size())
        return invalid("a model of " + std::to_string(model.size()) +
                       " numbers cannot be scored as [model] kind = \"" + config_.kind +
                       "\", which has " + std::to_string((*net)->layout()->size()));
      (*net)->assign(model);
      const auto part = score_part(**net, i, rows);
      const std::lock_guard lock(mutex_);
      free_.push_back(*std::move(net));
      return part;
    });
  }

  Result<Evaluation> score(std::span<const float> model, unsigned threads, TestRows rows) override {
    std::vector<Result<Part>> answers(parts(rows), Part{});
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i; (i = next++) < answers.size();) answers[i] = part(model, i, rows);
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
  // Returns a net that is not in use; a new one if all are.
  Result<std::unique_ptr<Net>> borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto net = std::move(free_.back());
        free_.pop_back();
        return net;
      }
    }
    LH_LET(net, Net::make(config_, test_->shape, device_));
    return std::make_unique<Net>(std::move(net));
  }

  Result<Part> score_part(Net& net, std::size_t i, TestRows rows) const {
    at::NoGradGuard no_grad;
    const std::size_t first = rows.first + i * size_;
    std::vector<std::uint32_t> samples(std::min(size_, std::min(rows.end, test_->size()) - first));
    std::iota(samples.begin(), samples.end(), std::uint32_t(first));
    const Batch batch = gather(*test_, samples).to(device_);
    LH_LET(answer, net.answer(batch.input, batch.target, false));
    const Task task = test_->shape.task;
    const std::uint64_t predicted = predictions(batch.target, task);
    return Part{batch_loss(answer, batch.target, task).item<double>() * double(predicted),
                predicted, batch_correct(answer, batch.target, task)};
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
  std::optional<std::uint64_t> correct = 0;
  for (const Part& part : in_order) {
    evaluation.loss += part.loss;
    evaluation.samples += part.samples;
    correct = correct && part.correct ? std::optional(*correct + *part.correct) : std::nullopt;
  }
  if (evaluation.samples == 0) return evaluation;
  evaluation.loss /= double(evaluation.samples);
  if (correct) evaluation.accuracy = double(*correct) / double(evaluation.samples);
  return evaluation;
}

Result<std::unique_ptr<Scorer>> make_scorer(const ModelConfig& config,
                                            std::shared_ptr<const DataSet> test) {
  use_one_thread_per_learner();
  LH_LET(device, choose_device(config, 0));
  LH_TRY(Net::make(config, test->shape, device));  // says now what cannot work
  return std::unique_ptr<Scorer>(std::make_unique<TorchScorer>(config, std::move(test), device));
}

}  // namespace longhaul::learn
