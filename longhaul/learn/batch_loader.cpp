#include "longhaul/learn/batch_loader.h"

#include <algorithm>

namespace longhaul::learn {

Batch gather(const DataSet& data, std::span<const std::uint32_t> samples) {
  const DataShape& shape = data.shape;
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
    : data_(parts.data), batches_(parts.shard, parts.batch, parts.seed, parts.origin) {}

Batch BatchLoader::peek() const {
  Batch batch = gather(*data_, batches_.peek());
  batch.last = batches_.last();
  return batch;
}

Batch BatchLoader::next() {
  Batch batch = peek();
  batches_.advance();
  return batch;
}

}  // namespace longhaul::learn
