#include "longhaul/learn/batch_loader.h"

#include <algorithm>

namespace longhaul::learn {
namespace {

Batch gather_text(const DataSet& data, std::span<const std::uint32_t> samples) {
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

}  // namespace

Batch gather(const DataSet& data, std::span<const std::uint32_t> samples) {
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

BatchLoader::BatchLoader(const LearnerParts& parts)
    : data_(parts.data),
      batches_(parts.shard, parts.batch, parts.seed, parts.origin, parts.joins) {}

Batch BatchLoader::peek() const {
  Batch batch = gather(*data_, batches_.peek());
  batch.last = batches_.last();
  return batch;
}

std::vector<std::uint32_t> BatchLoader::ahead(std::uint32_t batches) const {
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

Batch BatchLoader::next() {
  Batch batch = peek();
  batches_.advance();
  return batch;
}

}  // namespace longhaul::learn
