#pragma once
// The order in which one node uses its samples. Every epoch is a new permutation of the shard, a
// pure function of (seed, origin, epoch); every sample is used exactly once an epoch, so the last
// batch of an epoch is short where the batch size does not divide the shard. One of a single sample
// may join the batch before. The state is one number.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/rng.h"

namespace longhaul::learn {

class Batches {
 public:
  // `shard`: the samples of the node, at least one; `batch` at least 1; `origin`: rank of the node.
  // `joins`: a last batch of one sample joins the batch before, if there is one.
  Batches(std::vector<std::uint32_t> shard, std::uint32_t batch, std::uint64_t seed,
          std::uint32_t origin, bool joins = false)
      : shard_(std::move(shard)),
        batch_(batch),
        seed_(seed),
        origin_(origin),
        joins_(joins && batch > 1 && shard_.size() > 1 && shard_.size() % batch == 1) {
    LH_CHECK(!shard_.empty() && batch_ > 0);
    shuffle();
  }

  // The samples of the batch at hand; valid until advance() or state().
  std::span<const std::uint32_t> peek() const {
    const std::size_t begin = std::size_t(step_ % per_epoch()) * batch_;
    if (last()) return std::span(order_).subspan(begin);
    return std::span(order_).subspan(begin, batch_);
  }

  // an epoch ends with the batch at hand
  bool last() const { return (step_ + 1) % per_epoch() == 0; }

  // to the next batch
  void advance() {
    ++step_;
    if (step_ % per_epoch() == 0) shuffle();
  }

  std::uint64_t step() const { return step_; }  // batches gone by
  std::uint64_t epoch() const { return step_ / per_epoch(); }
  std::uint64_t per_epoch() const {
    const std::uint64_t all = (shard_.size() + batch_ - 1) / batch_;
    return joins_ ? all - 1 : all;
  }

  void state(Archive& archive) {
    archive(step_);
    if (archive.loading()) shuffle();
  }

 private:
  void shuffle() {
    order_ = shard_;
    Random random(seed_, {.purpose = Purpose::batches, .round = epoch(), .origin = origin_});
    random.shuffle(std::span(order_));
  }

  std::vector<std::uint32_t> shard_;
  std::vector<std::uint32_t> order_;  // the permutation of the epoch at hand
  std::uint32_t batch_;
  std::uint64_t seed_;
  std::uint32_t origin_;
  bool joins_;  // and there is one that does
  std::uint64_t step_ = 0;
};

}  // namespace longhaul::learn
