#pragma once
// Internal to learn/ (includes torch): a shard's batches as tensors.
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

// These samples of the data, in host memory.
Batch gather(const DataSet&, std::span<const std::uint32_t> samples);

// Loads the shard's batches as tensors, in the order of Batches.
class BatchLoader {
 public:
  explicit BatchLoader(const LearnerParts&);
  Batch next();
  Batch peek() const;  // the batch that next() will return
  // The samples of the next so many batches, without taking them.
  std::vector<std::uint32_t> ahead(std::uint32_t batches) const;
  std::uint64_t step() const { return batches_.step(); }  // batches taken
  void state(Archive& ar) { batches_.state(ar); }

 private:
  std::shared_ptr<const DataSet> data_;
  Batches batches_;
};

}  // namespace longhaul::learn
