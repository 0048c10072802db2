#pragma once
// Internal to learn/ (includes torch): a shard's batches as tensors.
#include <algorithm>

#include <ATen/ATen.h>

#include "longhaul/learn/learner.h"

namespace longhaul::learn {

struct Batch {
  at::Tensor input;  // batch x sample shape, float32; text: batch x context, int64
  // batch, int64: classes; batch x targets, float32: numbers, or labels of 0 and 1; batch x
  // context, int64: next bytes or tokens
  at::Tensor target;
  bool last = false;  // an epoch of the shard ends with it

  Batch to(at::Device device) const { return {input.to(device), target.to(device), last}; }
};

inline Batch gather_text(const DataSet& data, std::span<const std::uint32_t> samples) {
  const std::size_t width = data.shape.width();
  Batch batch;
  batch.input = at::empty({std::int64_t(samples.size()), std::int64_t(width)}, at::kLong);
  batch.target = at::empty_like(batch.input);
  auto* input = batch.input.data_ptr<std::int64_t>();
  auto* target = batch.target.data_ptr<std::int64_t>();
  std::vector<std::int64_t> window(width + 1);
  for (const std::uint32_t sample : samples) {
    data.copy_window(sample, window);
    input = std::copy(window.begin(), window.end() - 1, input);
    target = std::copy(window.begin() + 1, window.end(), target);
  }
  return batch;
}

// These samples of the data, in host memory.
inline Batch gather(const DataSet& data, std::span<const std::uint32_t> samples) {
  const DataShape& shape = data.shape;
  if (shape.task == Task::text) return gather_text(data, samples);
  const auto count = std::int64_t(samples.size());
  std::vector<std::int64_t> sizes = {count};
  sizes.insert(sizes.end(), shape.sample.begin(), shape.sample.end());
  Batch batch;
  batch.input = at::empty(sizes, at::kFloat);
  const std::size_t width = shape.width();
  float* input = batch.input.data_ptr<float>();
  for (std::size_t i = 0; i < samples.size(); ++i)
    data.copy_row(samples[i], {input + i * width, width});
  if (shape.task == Task::classification) {
    batch.target = at::empty({count}, at::kLong);
    auto* label = batch.target.data_ptr<std::int64_t>();
    for (std::uint32_t sample : samples) *label++ = data.labels[sample];
  } else {
    batch.target = at::empty({count, shape.outputs}, at::kFloat);
    float* target = batch.target.data_ptr<float>();
    for (std::uint32_t sample : samples)
      target = std::copy_n(data.targets.begin() + std::ptrdiff_t(sample) * shape.outputs,
                           shape.outputs, target);
  }
  return batch;
}

// Loads the shard's batches as tensors, in the order of Batches.
class BatchLoader {
 public:
  explicit BatchLoader(const LearnerParts& parts)
      : data_(parts.data),
        batches_(parts.shard, parts.batch, parts.seed, parts.origin, parts.joins) {}

  Batch next() {
    Batch batch = peek();
    batches_.advance();
    return batch;
  }

  // the batch that next() will return
  Batch peek() const {
    Batch batch = gather(*data_, batches_.peek());
    batch.last = batches_.last();
    return batch;
  }

  // The samples of the next so many batches, without taking them.
  std::vector<std::uint32_t> ahead(std::uint32_t batches) const {
    const auto first = batches_.peek();
    std::vector<std::uint32_t> samples(first.begin(), first.end());
    if (batches < 2) return samples;
    Batches following = batches_;
    for (std::uint32_t i = 1; i < batches; ++i) {
      following.advance();
      const auto next = following.peek();
      samples.insert(samples.end(), next.begin(), next.end());
    }
    return samples;
  }

  std::uint64_t step() const { return batches_.step(); }  // batches taken
  void state(Archive& ar) { batches_.state(ar); }

 private:
  std::shared_ptr<const DataSet> data_;
  Batches batches_;
};

}  // namespace longhaul::learn
