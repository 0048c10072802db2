#include "longhaul/learn/data/batches.h"

#include <algorithm>

#include "longhaul/base/rng.h"

namespace longhaul::learn {

Batches::Batches(std::vector<std::uint32_t> shard, std::uint32_t batch, std::uint64_t seed,
                 std::uint32_t origin, bool joins)
    : shard_(std::move(shard)),
      batch_(batch),
      seed_(seed),
      origin_(origin),
      joins_(joins && batch > 1 && shard_.size() > 1 && shard_.size() % batch == 1) {
  LH_CHECK(!shard_.empty() && batch_ > 0);
  shuffle();
}

std::span<const std::uint32_t> Batches::peek() const {
  const std::size_t begin = std::size_t(step_ % per_epoch()) * batch_;
  if (last()) return std::span(order_).subspan(begin);
  return std::span(order_).subspan(begin, batch_);
}

bool Batches::last() const { return (step_ + 1) % per_epoch() == 0; }

void Batches::advance() {
  ++step_;
  if (step_ % per_epoch() == 0) shuffle();
}

void Batches::state(Archive& archive) {
  archive(step_);
  if (archive.loading()) shuffle();
}

void Batches::shuffle() {
  order_ = shard_;
  Random random(seed_, {.purpose = Purpose::batches, .round = epoch(), .origin = origin_});
  random.shuffle(std::span(order_));
}

}  // namespace longhaul::learn
